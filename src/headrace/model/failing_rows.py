"""What is done about rows with which the query of a flow fails, such as one with a text for a number."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

# On a flow, or in the pipeline's configuration.
FAILING_ROWS_KEY = "headrace.failing_rows"
SHARE_KEY = "headrace.failing_rows.share"
FAILING_BATCHES_KEY = "headrace.failing_batches"
FAILING_ROWS_KEYS = frozenset({FAILING_ROWS_KEY, SHARE_KEY, FAILING_BATCHES_KEY})

_ACTIONS = {"fail": False, "quarantine": True}


class InvalidFailingRows(ValueError):
    """A value that one of the keys cannot have; the text says why."""


@dataclass(frozen=True)
class OnFailingRows:
    """What the keys say.

    Attributes:
        set_aside: the rows are set aside and the flow goes on; otherwise it fails.
        share: of the rows that a flow reads, above which it fails all the same.
        whole_batches: where no rows are found that it fails with, or too many, the batch is set aside as a whole.
    """

    set_aside: bool = False
    share: float = 0.01
    whole_batches: bool = False

    @property
    def goes_on(self) -> bool:
        """True when something of a batch that fails may be set aside."""
        return self.set_aside or self.whole_batches

    def with_confs(self, confs: Mapping[str, str]) -> OnFailingRows:
        """What confs say, and this where they do not.

        Raises:
            InvalidFailingRows: they say something else.
        """
        found = self
        if FAILING_ROWS_KEY in confs:
            found = replace(found, set_aside=_quarantines(confs[FAILING_ROWS_KEY]))
        if FAILING_BATCHES_KEY in confs:
            found = replace(found, whole_batches=_quarantines(confs[FAILING_BATCHES_KEY]))
        if SHARE_KEY in confs:
            found = replace(found, share=_share(confs[SHARE_KEY]))
        return found


# A batch is cut in half about twenty times for each row that is found in it.
MOST_OF_A_BATCH = 100
# A batch that is set aside as a whole passes through the memory of the driver.
MOST_OF_A_WHOLE_BATCH = 100_000
# With so many whole batches in a row, or among the last ones, it is no batch that is to blame.
MOST_BATCHES_IN_A_ROW = 3
MOST_OF_LAST_BATCHES, LAST_BATCHES = 10, 100
# Up to so many in an update say nothing of a share.
FEW = 10
# Where nobody says anything.
FAILS = OnFailingRows()


def too_many_batches(aside: Collection[int], number: int) -> str | None:
    """How many batches before one were set aside as a whole, where that one may not be too; None where it may.

    Args:
        aside: the numbers of those that are.
        number: of the batch.
    """
    before = number - 1
    while before in aside:
        before -= 1
    in_a_row = number - 1 - before
    if in_a_row >= MOST_BATCHES_IN_A_ROW:
        return f"{in_a_row} in a row"
    lately = sum(1 for one in aside if number - LAST_BATCHES <= one < number)
    return f"{lately} of the last {LAST_BATCHES}" if lately >= MOST_OF_LAST_BATCHES else None


def _quarantines(text: str) -> bool:
    action = text.strip().casefold()
    if action not in _ACTIONS:
        raise InvalidFailingRows(f'"{text}" is not {" or ".join(_ACTIONS)}')
    return _ACTIONS[action]


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 < share <= 1:
        raise InvalidFailingRows(f'"{text}" is not a number above 0 and at most 1')
    return share
