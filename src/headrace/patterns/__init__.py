"""Steps that many streams have, as functions over DataFrames: for pipelines, scripts and batches alike.

Each is made of Spark's own operators, so that nothing of it runs in Python, and gives over a stream what it gives over
a batch of the same rows, but for those that come later than the delay; and but for duplicates without a time.
"""

from __future__ import annotations

from headrace.patterns.duplicates import deduplicate
from headrace.patterns.funnels import funnel
from headrace.patterns.late import split_late
from headrace.patterns.sessions import sessionize
from headrace.patterns.totals import running_totals, windowed

__all__ = ["deduplicate", "funnel", "running_totals", "sessionize", "split_late", "windowed"]
