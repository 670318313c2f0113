"""Settings of a session that are in force inside a block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

from headrace.spark.session.guards import unguarded


def is_settable(session: SparkSession, key: str) -> bool:
    """True if a running session accepts a setting: Spark's runtime settings, and all of the user's own."""
    return bool(session.conf.isModifiable(key)) or not key.startswith("spark.")


@contextmanager
def with_confs(session: SparkSession, confs: Mapping[str, str]) -> Iterator[None]:
    """Set confs for the queries that are started inside the block; each query keeps its own copy."""
    before: dict[str, str | None] = {key: session.conf.get(key, None) for key in confs}
    try:
        with unguarded():
            for key, wanted in confs.items():
                session.conf.set(key, wanted)
        yield
    finally:
        with unguarded():
            for key, value in before.items():
                if not is_settable(session, key):
                    continue
                if value is None:
                    session.conf.unset(key)
                else:
                    session.conf.set(key, value)
