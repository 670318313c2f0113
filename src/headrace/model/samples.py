"""How many of the rows that break a rule are kept to be looked at, where the rule neither fails nor sets them aside."""

from __future__ import annotations

# On a flow, or in the pipeline's configuration.
SAMPLES_KEY = "headrace.broken_rows.samples"
MOST_SAMPLES = 100


class InvalidSamples(ValueError):
    """A value that the key cannot have; the text says why."""


def samples_of(text: str | None) -> int:
    """How many rows a rule; none where nothing is said.

    Raises:
        InvalidSamples: it says something else.
    """
    if text is None:
        return 0
    if not text.strip().isascii() or not text.strip().isdigit() or int(text) > MOST_SAMPLES:
        raise InvalidSamples(f'"{text}" is not a whole number from 0 to {MOST_SAMPLES}')
    return int(text)
