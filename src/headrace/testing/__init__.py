"""Tests of pipelines: rows in, rows out, batch by batch, crash and restart as steps, one warm session.

The pytest plugin comes with the package: a test asks for ``pipeline`` (the project around the test's file) or for
``make_project`` (one written in the test). Importing this package starts neither Spark nor a JVM.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headrace.runtime.failpoints import Failpoint
from headrace.testing.crash import Crashed
from headrace.testing.rows import assert_rows, difference
from headrace.testing.versions import history

if TYPE_CHECKING:
    from headrace.testing.driver import Pipeline
    from headrace.testing.result import Result

__all__ = ["Crashed", "Failpoint", "Pipeline", "Point", "Result", "assert_rows", "difference", "history"]

# The name of version 0.1.
Point = Failpoint
_HOMES = {"Pipeline": "headrace.testing.driver", "Result": "headrace.testing.result"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'headrace.testing' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
