"""Callback connections, by which Java calls Python: each Java thread keeps one, together with a Python thread.

A stream is a Java thread that calls Python for each batch. py4j releases neither when the stream ends.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession


def close_idle_connections(session: SparkSession) -> None:
    """Close the connections that were not used since the last call of this function, and end their Python threads.

    A Java thread that is still alive opens a new connection with its next call.
    """
    gateway: Any = session.sparkContext._gateway  # noqa: SLF001 - has no public form
    # The JVM may be gone, and the connections with it.
    with suppress(Py4JError, OSError):
        server: Any = JavaObject("GATEWAY_SERVER", gateway._gateway_client)  # noqa: SLF001 - as PySpark reaches it
        server.getCallbackClient().periodicCleanup()
