"""Keeps a holder of the lease that was stopped and goes on from replacing what the one after it has written (D11).

Between the check of the lease and a commit of Delta's a process may be stopped for as long as anybody likes. A commit
that takes rows away carries the number of the lease: Delta passes over it once a higher number has been committed.
Whoever takes over finishes what it finds begun, and so commits under its own number first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count

from headrace.delta_log.tables import table_state

_COMMITS_BITS = 24
# One holder's commits, however many, are told apart and none of them is passed over.
_commits = count(1)


def of_term(term: int | None, what: str) -> Mapping[str, str]:
    """Options of a Delta write that is passed over once a later holder has done the same to the table.

    None where the write is to be made whatever was written before.
    """
    if term is None:
        return {}
    return {"txnAppId": f"headrace {what}", "txnVersion": str(term << _COMMITS_BITS | next(_commits))}


def written_once(path: str, term: int, fence: Callable[[], None], write: Callable[[int | None], object]) -> None:
    """Write to the table at a path by a commit of *term*, and by one without where the table knows a higher number.

    That is one of a holder that has taken over, of which *fence* tells; or the lease was deleted, and begins anew.
    """
    before = table_state(path)
    write(term)
    after = table_state(path)
    if before is not None and after is not None and before.version == after.version:
        fence()
        write(None)
