"""Headrace: streaming tables for open-source Spark.

``Project`` opens and runs a pipeline; ``spark_session`` returns a session for scripts, with ``dbutils``, ``display``
and ``displayHTML``; ``from_confluent`` decodes payloads with their registered schemas; ``point_in_time`` reads tables
with history as of a time. Importing the package imports neither Spark nor the engine: executors and command-line
completion load it too.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headrace.model.version import __version__

if TYPE_CHECKING:
    from headrace.project.open import Project
    from headrace.scripts.notebook_globals import dbutils, display, displayHTML
    from headrace.scripts.session import spark_session
    from headrace.spark.queries.feature_lookup import point_in_time
    from headrace.spark.readers.confluent import from_confluent

__all__ = [
    "Project",
    "__version__",
    "dbutils",
    "display",
    "displayHTML",
    "from_confluent",
    "point_in_time",
    "spark_session",
]

_HOMES = {
    "Project": "headrace.project.open",
    "dbutils": "headrace.scripts.notebook_globals",
    "display": "headrace.scripts.notebook_globals",
    "displayHTML": "headrace.scripts.notebook_globals",
    "from_confluent": "headrace.spark.readers.confluent",
    "point_in_time": "headrace.spark.queries.feature_lookup",
    "spark_session": "headrace.scripts.session",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'headrace' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
