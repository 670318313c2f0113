"""Fencing tokens: a former holder of the lease that was paused cannot overwrite what its successor has written (D11).

A process may be paused between its check of the lease and a commit. A commit that removes rows therefore carries the
lease's fencing token as its transaction version: Delta skips it once a higher version has been committed. A new holder
first finishes what it finds unfinished, and so commits under its own token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count

from headrace.delta_log.tables import table_state

_COMMITS_BITS = 24
# Distinguishes the commits of one holder, so that none of them is skipped.
_commits = count(1)


def fencing_options(fencing_token: int | None, operation: str) -> Mapping[str, str]:
    """Options of a Delta write that Delta skips once a later holder has done the same operation on the table.

    Without a token, the write is made in any case.
    """
    if fencing_token is None:
        return {}
    return {"txnAppId": f"headrace {operation}", "txnVersion": str(fencing_token << _COMMITS_BITS | next(_commits))}


def write_fenced(
    path: str, fencing_token: int, fence: Callable[[], None], write: Callable[[int | None], object]
) -> None:
    """Write to the table at a path with a fencing token; without one if the table has a higher token.

    A higher token means that another holder has taken over, in which case *fence* raises, or that the lease was deleted
    and its tokens start again.
    """
    before = table_state(path)
    write(fencing_token)
    after = table_state(path)
    if before is not None and after is not None and before.version == after.version:
        fence()
        write(None)
