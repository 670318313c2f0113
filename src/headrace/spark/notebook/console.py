"""The console sink of a script's stream, which prints where the script itself prints.

Spark's console sink prints in the JVM, whose output goes to its log here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame

_LINE = "-" * 43
_ROWS = 20


def console_printer(options: Mapping[str, Any]) -> Callable[[DataFrame, int], None]:
    """A function that prints the batches of a stream.

    Args:
        options: the writer's options in lower case: ``numrows`` and ``truncate``, as in Spark's ``ConsoleWrite``.
    """
    rows = int(options.get("numrows", _ROWS))
    truncate = str(options.get("truncate", True)).casefold() == "true"

    def show(batch: DataFrame, number: int) -> None:
        sys.stdout.write(f"{_LINE}\nBatch: {number}\n{_LINE}\n")
        batch.show(rows, truncate=truncate)
        sys.stdout.flush()

    return show
