"""Connections by which Java calls Python: each Java thread that has done so keeps one, and a Python thread at its end.

A stream is a Java thread, and calls Python for each of its batches. py4j lets go of neither when the stream has ended.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession


def close_idle_connections(session: SparkSession) -> None:
    """Close the connections that nobody has used since the last call, and end their Python threads.

    A Java thread that lives on opens a new one when it calls next.
    """
    gateway: Any = session.sparkContext._gateway  # noqa: SLF001 - has no public form
    # The JVM may be gone, and the connections with it.
    with suppress(Py4JError, OSError):
        server: Any = JavaObject("GATEWAY_SERVER", gateway._gateway_client)  # noqa: SLF001 - as PySpark reaches it
        server.getCallbackClient().periodicCleanup()
