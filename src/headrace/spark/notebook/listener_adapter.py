"""Adapts stream listeners that do not extend Spark's base class."""

from __future__ import annotations

from functools import wraps
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from headrace.spark.notebook.notebook_session import notebook_for

_ADAPTED = "_headrace_adapted"


class _Adapted(StreamingQueryListener):
    """Forwards events to an object that has some of a listener's methods."""

    def __init__(self, listener: Any) -> None:
        self._listener = listener

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        self._forward("onQueryStarted", event)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's name
        self._forward("onQueryProgress", event)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802 - Spark's name
        self._forward("onQueryIdle", event)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 - Spark's name
        self._forward("onQueryTerminated", event)

    def _forward(self, method: str, event: Any) -> None:
        handle = getattr(self._listener, method, None)
        if handle is not None:
            handle(event)


def adapting(original: Any) -> Any:
    """Wrap ``addListener`` and ``removeListener``, so that they accept any object with a listener's methods."""

    @wraps(original)
    def taking(self: Any, listener: Any) -> Any:
        if notebook_for(None) is None or isinstance(listener, StreamingQueryListener):
            return original(self, listener)
        adapted = getattr(listener, _ADAPTED, None) or _Adapted(listener)
        setattr(listener, _ADAPTED, adapted)
        return original(self, adapted)

    return taking
