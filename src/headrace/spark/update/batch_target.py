"""The target of a flow's batches, and the transaction version of each attempt at a batch."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model.refresh import Refresh

# Batch, fencing token and attempt together form the transaction version, a number of 63 bits.
_TOKEN_BITS, _ATTEMPT_BITS = 24, 12
_MAX_TOKEN, _MAX_ATTEMPT = (1 << _TOKEN_BITS) - 1, (1 << _ATTEMPT_BITS) - 1


@dataclass(frozen=True)
class BatchTarget:
    """The target of a flow's batches, and the identity of its commits.

    ``identity`` is the flow's name in quarantined rows; a rename does not change it. ``fencing_token`` counts the
    holders of the lease, and ``attempt`` the attempts of the flow by this holder.
    """

    flow: str
    dataset: str
    table: str
    quarantine: str
    transaction: str
    epoch: int
    identity: str
    update_id: str
    fencing_token: int
    attempt: int
    # Spark's query id, under which Delta's own sink committed in version 0.1; empty without a query.
    query_id: str = ""
    stateful: bool = False
    replaces: bool = False
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    # NOT NULL columns of a table that batches replace.
    required: tuple[str, ...] = ()
    # The first batch may be one that an earlier attempt started.
    repeats: bool = True
    # Auto Loader's column of rescued data, if there is one.
    rescued_column: str | None = None
    # How a materialized view is refreshed; None for other flows.
    refresh: Refresh | None = None
    # What the commits say in addition; None for nothing.
    user_metadata: str | None = None


def transaction_version(batch_id: int, fencing_token: int, attempt: int) -> int:
    """The transaction version of an attempt at a batch. It increases with batch, fencing token and attempt.

    Delta skips a commit whose version is not above the last one of its writer. So a paused holder of the lease that
    resumes cannot write a batch that its successor has written.
    """
    return (batch_id << _TOKEN_BITS | min(fencing_token, _MAX_TOKEN)) << _ATTEMPT_BITS | min(attempt, _MAX_ATTEMPT)
