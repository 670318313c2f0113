"""Writes of ``foreachBatch`` functions that happen once, in pipelines and in plain scripts.

Each helper takes the batch and its number as the function gets them. What a batch has brought is recorded where it is
written, under the query's id, so that a batch that comes again after a crash changes nothing.
"""

from headrace.delivery.delta import append_once, merge_into, upsert
from headrace.delivery.outages import deliver_or_keep, retry
from headrace.delivery.several import deliver_to_all

__all__ = ["append_once", "deliver_or_keep", "deliver_to_all", "merge_into", "retry", "upsert"]
