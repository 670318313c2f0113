"""Call sites of expressions: PySpark records each one in Java, so that Spark's errors can name the line.

That takes a dozen Java calls per expression, more than everything else done for it. The lines of expressions that
Headrace itself builds help nobody, so that only call sites in other code are recorded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

from pyspark.errors import utils

_MARK = "_headrace_patched"
_LIBRARY, _OWN = "pyspark.", "headrace."


def record_user_call_sites() -> None:
    """Make PySpark record only call sites outside Headrace; patches once per process."""
    if not hasattr(utils.is_debugging_enabled, _MARK):
        utils.is_debugging_enabled = _outside_headrace(utils.is_debugging_enabled)


def _outside_headrace(original: Callable[[], bool]) -> Callable[[], bool]:
    def is_recorded() -> bool:
        return original() and not _calling_module().startswith(_OWN)

    setattr(is_recorded, _MARK, True)
    return is_recorded


def _calling_module() -> str:
    """The module that builds the expression: the nearest caller outside PySpark."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if not name.startswith(_LIBRARY):
            return name
        frame = frame.f_back
    return ""
