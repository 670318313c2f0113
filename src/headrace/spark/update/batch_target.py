"""Where the batches of a flow go, and the number under which each try of a batch is committed."""

from __future__ import annotations

from dataclasses import dataclass

# Batch, term and attempt together are a transaction's version, a number of 63 bits.
_TERM_BITS, _ATTEMPT_BITS = 24, 12
_MAX_TERM, _MAX_ATTEMPT = (1 << _TERM_BITS) - 1, (1 << _ATTEMPT_BITS) - 1


@dataclass(frozen=True)
class BatchTarget:
    """Where the batches of a flow go, and under which identity.

    ``identity`` is the name that the flow's rows in quarantine carry, which a rename does not change. ``term`` counts
    the holders of the lease, and ``attempt`` the tries of the flow by this one.
    """

    flow: str
    dataset: str
    table: str
    quarantine: str
    transaction: str
    epoch: int
    identity: str
    update_id: str
    term: int
    attempt: int
    # Spark's id of the query, under which Delta's own sink commits, if there is one.
    query_id: str = ""
    stateful: bool = False
    replaces: bool = False
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    # Columns that have a value in every row, of a table that batches replace.
    required: tuple[str, ...] = ()
    # The first batch may be one that another attempt has begun.
    repeats: bool = True
    # In which Auto Loader has put what has no place, if a column is such.
    rescued_column: str | None = None


def transaction_version(batch_id: int, term: int, attempt: int) -> int:
    """Under which a try of a batch is committed: a later batch, holder or try has a higher number than an earlier one.

    Delta passes over a commit whose number is not above the last one of its writer, so that a holder of the lease which
    was stopped and goes on cannot write a batch that the one after it has written.
    """
    return (batch_id << _TERM_BITS | min(term, _MAX_TERM)) << _ATTEMPT_BITS | min(attempt, _MAX_ATTEMPT)
