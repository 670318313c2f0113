"""How many rows a batch may have to be committed without Spark's writer."""

from __future__ import annotations

# Set on a flow or in the pipeline's configuration.
SMALL_BATCH_ROWS_KEY = "headrace.small_batches.rows"
_DEFAULT_ROWS = 10_000
# The rows of a small batch pass through the driver's memory.
_MOST_ROWS = 100_000


class InvalidSmallBatches(ValueError):
    """An invalid value of the key; the text says why."""


def small_batch_rows(text: str | None) -> int:
    """The number of rows of the largest small batch; 0 if no batch is small; the default for None.

    Raises:
        InvalidSmallBatches: the text is invalid.
    """
    if text is None:
        return _DEFAULT_ROWS
    digits = text.strip().replace("_", "")
    if not (digits.isascii() and digits.isdigit() and int(digits) <= _MOST_ROWS):
        raise InvalidSmallBatches(f'"{text}" is not a whole number from 0 to {_MOST_ROWS}')
    return int(digits)
