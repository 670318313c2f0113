"""Exactly-once writes for ``foreachBatch`` functions, in pipelines and in plain scripts.

Each helper takes the batch and its number, as the function gets them. The target records the batch under the query's
id, so a batch that is repeated after a crash changes nothing. ``record_metric`` records numbers about the batch.
"""

from headrace.delivery.delta import append_once, merge_into, upsert
from headrace.delivery.fan_out import deliver_to_all
from headrace.delivery.metrics import record_metric
from headrace.delivery.outages import deliver_or_keep, retry

__all__ = ["append_once", "deliver_or_keep", "deliver_to_all", "merge_into", "record_metric", "retry", "upsert"]
