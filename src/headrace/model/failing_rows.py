"""What is done about rows with which the query of a flow fails, such as one with a text for a number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

# On a flow, or in the pipeline's configuration.
FAILING_ROWS_KEY = "headrace.failing_rows"
SHARE_KEY = "headrace.failing_rows.share"
FAILING_ROWS_KEYS = frozenset({FAILING_ROWS_KEY, SHARE_KEY})

_ACTIONS = {"fail": False, "quarantine": True}


class InvalidFailingRows(ValueError):
    """A value that one of the keys cannot have; the text says why."""


@dataclass(frozen=True)
class OnFailingRows:
    """What the keys say.

    Attributes:
        set_aside: the rows are set aside and the flow goes on; otherwise it fails.
        share: of the rows that a flow reads, above which it fails all the same.
    """

    set_aside: bool = False
    share: float = 0.01

    def with_confs(self, confs: Mapping[str, str]) -> OnFailingRows:
        """What confs say, and this where they do not.

        Raises:
            InvalidFailingRows: they say something else.
        """
        found = self
        if FAILING_ROWS_KEY in confs:
            action = confs[FAILING_ROWS_KEY].strip().casefold()
            if action not in _ACTIONS:
                raise InvalidFailingRows(f'"{confs[FAILING_ROWS_KEY]}" is none of {", ".join(_ACTIONS)}')
            found = replace(found, set_aside=_ACTIONS[action])
        if SHARE_KEY in confs:
            found = replace(found, share=_share(confs[SHARE_KEY]))
        return found


# A batch is cut in half about twenty times for each row that is found in it.
MOST_OF_A_BATCH = 100
# Up to so many in an update say nothing of a share.
FEW = 10
# Where nobody says anything.
FAILS = OnFailingRows()


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 < share <= 1:
        raise InvalidFailingRows(f'"{text}" is no number above 0 and up to 1')
    return share
