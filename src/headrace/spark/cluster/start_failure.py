"""The error for an application that a cluster did not start."""

from __future__ import annotations

from pathlib import Path

from headrace.errors import PipelineError

_ENDED = (
    "Cannot call methods on a stopped SparkContext",
    "Can only call getServletHandlers on a running MetricsSystem",
)


def start_failure(text: str, log_folder: Path) -> PipelineError:
    """The error, from the text of Spark's exception.

    Args:
        text: of the exception.
        log_folder: the folder with Spark's log.
    """
    reason = text.strip().splitlines()[0] if text.strip() else ""
    if any(ended in text for ended in _ENDED):
        # Only the log has the cause; these are what it leads to.
        reason = "the master was not reached, or it ended the application"
    return PipelineError("CLUSTER.NOT_STARTED", reason=reason, log=log_folder / "spark.log")
