"""How many rows to sample per expectation that warns or drops."""

from __future__ import annotations

# Set on a flow or in the pipeline's configuration.
SAMPLES_KEY = "headrace.broken_rows.samples"
MAX_SAMPLES = 100


class InvalidSamples(ValueError):
    """An invalid value of the key; the text says why."""


def samples_of(text: str | None) -> int:
    """The number of rows per expectation; 0 without a value.

    Raises:
        InvalidSamples: the value is invalid.
    """
    if text is None:
        return 0
    if not text.strip().isascii() or not text.strip().isdigit() or int(text) > MAX_SAMPLES:
        raise InvalidSamples(f'"{text}" is not a whole number from 0 to {MAX_SAMPLES}')
    return int(text)
