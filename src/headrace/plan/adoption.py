"""Decides from which batch a flow goes on that takes over a job's table and checkpoint. Pure: values in, values out.

A job plans a batch, writes it, and records that it is done. It may have been stopped between any two of these. Delta's
own sink commits a batch as the transaction of the query's id, so the table itself says whether it has the batch that
was planned last. Other writers, such as a function of ``foreachBatch``, leave no such trace.

Law: a flow that plans on after ``planned`` and skips what ``committed`` says writes each batch exactly once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headrace.plan.agreement import NONE

# What Spark calls the operators of a checkpoint, by their kinds in a query.
_STATE_NAMES: Mapping[str, tuple[str, ...]] = {
    "aggregate": ("aggregation", "aggregation by session window"),
    "deduplicate": ("deduplication",),
    "deduplicate within watermark": ("deduplication within the watermark",),
    "join": ("stream-stream join",),
    "limit": ("limit",),
    "applyInPandasWithState": ("function with state",),
    "transformWithState": ("transformWithState",),
}
_PATTERN = " topics like "
_WILDCARD = re.compile(r"[*?\[{]")


@dataclass(frozen=True)
class JobProgress:
    """How far a job has come.

    Attributes:
        planned: the newest planned batch of its checkpoint; -1 for none.
        done: the newest batch that the checkpoint knows to be done; -1 for none.
        transaction: the newest batch that the table has as a transaction of the job's query; None without any.
    """

    planned: int
    done: int
    transaction: int | None


@dataclass(frozen=True)
class Refused:
    """Why a job's progress cannot be taken over: the code of the error, and its reason."""

    code: str
    reason: str


def committed_batch(job: JobProgress) -> int | Refused:
    """The newest batch that the table has; -1 for none. Or why that cannot be known.

    Args:
        job: how far it has come; it does not run.
    """
    if job.transaction is None:
        if job.done >= job.planned:
            return job.planned
        reason = (
            f"batch {job.planned} was planned and is not known to be done, and the table has no transaction of the job"
        )
        return Refused("ADOPT.BATCH_UNKNOWN", reason)
    if job.transaction > job.planned:
        planned = "no batch" if job.planned == NONE else f"batch {job.planned}"
        reason = f"the table has batch {job.transaction} of the query, and the checkpoint has planned {planned}"
        return Refused("ADOPT.CHECKPOINT_OLD", reason)
    if job.transaction < job.done:
        reason = f"the table has batch {job.transaction} of the query, and the checkpoint has done batch {job.done}"
        return Refused("ADOPT.TABLE_OLD", reason)
    return job.transaction


def state_mismatch(known: Sequence[str], kinds: Sequence[str]) -> str:
    """Why a query cannot use the state of a checkpoint; empty if its operators are those of the checkpoint.

    Args:
        known: what each operator of the checkpoint does, in Spark's order; empty texts where that is unknown.
        kinds: the kinds of the query's operators, in Spark's order.
    """
    if not all(known):
        return "the checkpoint does not say what its state is for"
    wanted = tuple(kinds)
    if len(known) == len(wanted) and all(
        name in _STATE_NAMES.get(kind, ()) for name, kind in zip(known, wanted, strict=True)
    ):
        return ""
    return f"the checkpoint has state of {_listed(known)}, and the flow keeps state for {_listed(wanted)}"


def _is_state_of(name: str, kind: str) -> bool:
    return name in _STATE_NAMES.get(kind, ())


def topics_mismatch(topics: Iterable[str], source: str) -> str:
    """Why topics of a checkpoint are not those of a source; empty if they are.

    Args:
        topics: of the checkpoint.
        source: the source's description: its format, and its topics or a pattern.
    """
    _, _, pattern = source.partition(_PATTERN)
    if pattern:
        others = [topic for topic in topics if re.fullmatch(pattern, topic) is None]
    else:
        named = {name.strip() for name in source.partition(" ")[2].split(",")}
        others = [topic for topic in topics if topic not in named]
    return f"it has read {_listed(sorted(others))}" if others else ""


def files_mismatch(files: Iterable[str], patterns: Iterable[str]) -> str:
    """Why files of a checkpoint are not those of a source; empty if they are.

    Args:
        files: paths that the job has listed.
        patterns: local paths and patterns that the source lists.
    """
    roots = [_fixed_part(pattern) for pattern in patterns]
    other = next((file for file in sorted(files) if not any(_is_below(file, root) for root in roots)), None)
    return "" if other is None else f"it has read {other}"


def _fixed_part(pattern: str) -> str:
    """The folders of a pattern before its first wildcard."""
    found = _WILDCARD.search(pattern)
    return pattern.rstrip("/") if found is None else pattern[: found.start()].rpartition("/")[0]


def _is_below(file: str, root: str) -> bool:
    return file == root or file.startswith(f"{root}/")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names) or "nothing"
