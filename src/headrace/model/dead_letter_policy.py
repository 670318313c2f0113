"""The dead letter policy of a flow: what happens to rows that its query cannot process, such as text for a number."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

# Set on a flow or in the pipeline's configuration.
FAILING_ROWS_KEY = "headrace.failing_rows"
SHARE_KEY = "headrace.failing_rows.share"
FAILING_BATCHES_KEY = "headrace.failing_batches"
FAILING_ROWS_KEYS = frozenset({FAILING_ROWS_KEY, SHARE_KEY, FAILING_BATCHES_KEY})

_ACTIONS = {"fail": False, "quarantine": True}


class InvalidDeadLetterPolicy(ValueError):
    """An invalid value of one of the keys; the text says why."""


@dataclass(frozen=True)
class DeadLetterPolicy:
    """The values of the keys.

    Attributes:
        accepts_rows: failing rows become dead letters; otherwise the flow fails.
        max_share: the greatest share of failing rows among those read; above it the flow fails all the same.
        accepts_batches: if no failing rows are found, or too many, the whole batch becomes a dead letter.
    """

    accepts_rows: bool = False
    max_share: float = 0.01
    accepts_batches: bool = False

    @property
    def is_enabled(self) -> bool:
        """True if rows or batches may become dead letters."""
        return self.accepts_rows or self.accepts_batches

    def with_confs(self, confs: Mapping[str, str]) -> DeadLetterPolicy:
        """This policy with the values in *confs*.

        Raises:
            InvalidDeadLetterPolicy: a value is invalid.
        """
        found = self
        if FAILING_ROWS_KEY in confs:
            found = replace(found, accepts_rows=_quarantines(confs[FAILING_ROWS_KEY]))
        if FAILING_BATCHES_KEY in confs:
            found = replace(found, accepts_batches=_quarantines(confs[FAILING_BATCHES_KEY]))
        if SHARE_KEY in confs:
            found = replace(found, max_share=_share(confs[SHARE_KEY]))
        return found


# Finding one row bisects the batch about twenty times.
MAX_DEAD_LETTERS_PER_BATCH = 100
# A batch that becomes a dead letter as a whole passes through the driver's memory.
MAX_ROWS_OF_DEAD_BATCH = 100_000
# With so many failed batches in a row, or among the latest ones, the batches are not the cause.
MAX_CONSECUTIVE_BATCHES = 3
MAX_RECENT_BATCHES, RECENT_BATCHES = 10, 100
# So many rows in an update are allowed whatever their share.
MIN_ALLOWED_ROWS = 10
# The default.
NO_DEAD_LETTERS = DeadLetterPolicy()


def too_many_batches(failed_batches: Collection[int], number: int) -> str | None:
    """Text with the number of failed batches before one, if that one may not become a dead letter; None if it may.

    Args:
        failed_batches: the numbers of the batches that are dead letters.
        number: the number of the batch.
    """
    before = number - 1
    while before in failed_batches:
        before -= 1
    consecutive = number - 1 - before
    if consecutive >= MAX_CONSECUTIVE_BATCHES:
        return f"{consecutive} in a row"
    recent = sum(1 for one in failed_batches if number - RECENT_BATCHES <= one < number)
    return f"{recent} of the last {RECENT_BATCHES}" if recent >= MAX_RECENT_BATCHES else None


def _quarantines(text: str) -> bool:
    action = text.strip().casefold()
    if action not in _ACTIONS:
        raise InvalidDeadLetterPolicy(f'"{text}" is not {" or ".join(_ACTIONS)}')
    return _ACTIONS[action]


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 < share <= 1:
        raise InvalidDeadLetterPolicy(f'"{text}" is not a number above 0 and at most 1')
    return share
