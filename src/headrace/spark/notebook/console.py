"""The console as a target of a script's stream: what Spark prints there goes where the script's own words go.

Spark's console sink prints in the JVM, whose output is its log here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame

_LINE = "-" * 43
_ROWS = 20


def shown(options: Mapping[str, Any]) -> Callable[[DataFrame, int], None]:
    """What prints the batches of a stream.

    Args:
        options: of the writer, in lower case: ``numrows`` and ``truncate`` as those of Spark's ``ConsoleWrite``.
    """
    rows = int(options.get("numrows", _ROWS))
    truncate = str(options.get("truncate", True)).casefold() == "true"

    def show(batch: DataFrame, number: int) -> None:
        sys.stdout.write(f"{_LINE}\nBatch: {number}\n{_LINE}\n")
        batch.show(rows, truncate=truncate)
        sys.stdout.flush()

    return show
