"""Settings of a session that are in force for a while."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

from headrace.spark.session.guards import unguarded


def settable(session: SparkSession, key: str) -> bool:
    """True for a setting that a session that is there already takes: Spark's own while it runs, and all of a user's."""
    return bool(session.conf.isModifiable(key)) or not key.startswith("spark.")


@contextmanager
def with_confs(session: SparkSession, confs: Mapping[str, str]) -> Iterator[None]:
    """Settings for the queries that are started inside the block; each keeps a copy of its own."""
    before: dict[str, str | None] = {key: session.conf.get(key, None) for key in confs}
    try:
        with unguarded():
            for key, wanted in confs.items():
                session.conf.set(key, wanted)
        yield
    finally:
        with unguarded():
            for key, value in before.items():
                if not settable(session, key):
                    continue
                if value is None:
                    session.conf.unset(key)
                else:
                    session.conf.set(key, value)
