"""Where an expression was written: PySpark notes it in Java for each one, so that Spark's errors can name the line.

That takes a dozen calls of Java for each expression, more than all else that is done for it. For expressions that
Headrace itself writes nobody is helped by its line, so that the place is noted for the code of others alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

from pyspark.errors import utils

_MARK = "_headrace_patched"
_LIBRARY, _OWN = "pyspark.", "headrace."


def note_those_of_others() -> None:
    """Have PySpark note the places of expressions that Headrace does not write; once in this process."""
    if not hasattr(utils.is_debugging_enabled, _MARK):
        utils.is_debugging_enabled = _for_others(utils.is_debugging_enabled)


def _for_others(original: Callable[[], bool]) -> Callable[[], bool]:
    def noted() -> bool:
        return original() and not _writer().startswith(_OWN)

    setattr(noted, _MARK, True)
    return noted


def _writer() -> str:
    """The module whose code writes the expression: the nearest caller that is not PySpark itself."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if not name.startswith(_LIBRARY):
            return name
        frame = frame.f_back
    return ""
