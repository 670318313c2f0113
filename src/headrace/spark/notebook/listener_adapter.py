"""Listeners of streams that are written without Spark's base class."""

from __future__ import annotations

from functools import wraps
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from headrace.spark.notebook.notebook_session import ready_for

_ADAPTED = "_headrace_adapted"


class _Adapted(StreamingQueryListener):
    """Hands what happens to an object that has some of a listener's methods."""

    def __init__(self, listener: Any) -> None:
        self._hearing = listener

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        self._tell("onQueryStarted", event)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's name
        self._tell("onQueryProgress", event)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802 - Spark's name
        self._tell("onQueryIdle", event)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 - Spark's name
        self._tell("onQueryTerminated", event)

    def _tell(self, method: str, event: Any) -> None:
        hear = getattr(self._hearing, method, None)
        if hear is not None:
            hear(event)


def adapting(original: Any) -> Any:
    """``addListener`` and ``removeListener`` of a session's streams: any object with a listener's methods is taken."""

    @wraps(original)
    def taking(self: Any, listener: Any) -> Any:
        if ready_for(None) is None or isinstance(listener, StreamingQueryListener):
            return original(self, listener)
        adapted = getattr(listener, _ADAPTED, None) or _Adapted(listener)
        setattr(listener, _ADAPTED, adapted)
        return original(self, adapted)

    return taking
