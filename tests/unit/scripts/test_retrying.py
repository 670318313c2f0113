"""Streams of scripts that are restarting: with a query of Java that is played, because what counts is a moment."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from headrace.spark.jvm.causes import Cause
from headrace.spark.notebook.stream_retry import RetriedQuery
from headrace.spark.notebook.user_exception import find_user_exception


class Played:
    """Java's query: it fails at once, or runs until it is stopped."""

    def __init__(self, *, fails):
        self.fails, self.stopped = fails, threading.Event()

    def awaitTermination(self):  # noqa: N802 - Java's name
        if self.fails:
            raise ConnectionError("away")
        self.stopped.wait()

    def recentProgress(self):  # noqa: N802 - Java's name
        return []

    def stop(self):
        self.stopped.set()


def test_a_query_that_is_stopped_while_it_restarts_does_not_continue():
    begins, goes_on, made = threading.Event(), threading.Event(), []

    def start():
        if made:
            begins.set()
            goes_on.wait()
        made.append(Played(fails=not made))
        return SimpleNamespace(_jsq=made[-1])

    query = RetriedQuery(start, 3, 0.001, lambda _error: True, lambda _text: None)
    begins.wait()
    stopping = threading.Thread(target=query.stop, daemon=True)
    stopping.start()
    goes_on.set()
    stopping.join(30)

    assert (query.isActive, made[-1].stopped.is_set()) == (False, True)


@pytest.mark.parametrize(
    ("raised", "passes"),
    [
        ("ConnectionError: closed", True),
        ("TimeoutError: no answer", True),
        ("psycopg.OperationalError: the server closed the connection", True),
        ("requests.exceptions.ConnectTimeout: no answer", True),
        ("delta.exceptions.base.ConcurrentAppendException: [DELTA_CONCURRENT_APPEND] another commit", True),
        ("KeyError: 'id'", False),
        ("ValueError: no number", False),
        ("AssertionError", False),
    ],
)
def test_user_exceptions_are_classified_as_transient_or_permanent(raised, passes):
    text = f'Return Message: Traceback (most recent call last):\n  File "a.py", line 2, in deliver\n{raised}\n'

    found = find_user_exception((Cause(None, None, text, "Py4JException"),))

    assert (found.what, found.is_transient()) == (raised.partition(":")[0], passes)
