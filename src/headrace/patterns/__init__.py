"""Common streaming steps as functions over DataFrames, for pipelines, scripts and batches.

Each uses only Spark's own operators, so nothing runs in Python. A stream gives the same result as a batch of the same
rows, except for rows later than the delay, and for duplicates without a time.
"""

from __future__ import annotations

from headrace.patterns.duplicates import deduplicate
from headrace.patterns.funnels import funnel
from headrace.patterns.late import split_late
from headrace.patterns.sessions import sessionize
from headrace.patterns.totals import running_totals, windowed

__all__ = ["deduplicate", "funnel", "running_totals", "sessionize", "split_late", "windowed"]
