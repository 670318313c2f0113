"""The session that this process has already."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def existing_session() -> SparkSession | None:
    """The existing session of the program, whichever thread created it; PySpark is not loaded to find none.

    It is the one that ``SparkSession.builder.getOrCreate()`` returns, not the active one. The active session may be any
    that created a frame from rows since, such as that of a batch passed to a sink's function.
    """
    loaded = sys.modules.get("pyspark.sql.session")
    return None if loaded is None else loaded.SparkSession._instantiatedSession  # noqa: SLF001 - it has no public form
