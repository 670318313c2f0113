"""Chooses between a full refresh of a view and one of what changed, by their estimated cost.

The estimates rest on past refreshes of the same view. Before the first measurements, a constant rate stands in.
Law: as long as the estimates are right, the choice costs at most 1.25 times the cheaper way.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.model.refresh import RefreshCost, RefreshMethod

# Before a view was refreshed in both ways: what each refresh costs beside the work on rows, and how many bytes of its
# tables a full one computes a second, on 2 cores. Rather too much for the way that has not been tried.
_PARTIAL_S, _FROM_CHANGES_S = 4.0, 2.0
_FULL_S = 0.5
_BYTES_PER_S = 16e6
# All tables are read, but only few rows are aggregated and written; changed files are read, compared and joined.
_READ_SHARE, _CHANGED_SHARE = 0.35, 3.0


def cost_key(method: RefreshMethod, *, reads_all: bool) -> str:
    """The name under which the cost of a refresh is stored.

    Args:
        method: how much it computed.
        reads_all: whether it read all rows of its tables, or only those that changed.
    """
    return method.value if reads_all else f"{method.value} from changes"


def cheaper_method(
    partial: RefreshMethod,
    past: Mapping[str, RefreshCost],
    input_bytes: int,
    changed_bytes: int,
    *,
    reads_all: bool = True,
) -> tuple[RefreshMethod, str]:
    """The way that probably costs less, and why.

    Args:
        partial: the way that does not compute all rows.
        past: the costs of the last refreshes, by :func:`cost_key`.
        input_bytes: the size of the tables that the view reads.
        changed_bytes: the size of the files that changed since its last refresh.
        reads_all: whether the partial way reads all rows of the tables.
    """
    full = full_estimate_s(past.get(cost_key(RefreshMethod.FULL, reads_all=True)), input_bytes)
    last = past.get(cost_key(partial, reads_all=reads_all))
    some = partial_estimate_s(last, full, input_bytes, changed_bytes, reads_all=reads_all)
    share = min(changed_bytes / max(input_bytes, 1), 1.0)
    reason = f"{share:.0%} of the input changed: about {some:.1f} s for what changed, {full:.1f} s for all rows"
    return (partial if some <= full else RefreshMethod.FULL), reason


def full_estimate_s(last: RefreshCost | None, input_bytes: int) -> float:
    """How long a full refresh probably takes."""
    if last is None:
        return _FULL_S + input_bytes / _BYTES_PER_S
    return _FULL_S + max(last.seconds - _FULL_S, 0.0) * input_bytes / max(last.input_bytes, 1)


def partial_estimate_s(
    last: RefreshCost | None, full_s: float, input_bytes: int, changed_bytes: int, *, reads_all: bool = True
) -> float:
    """How long a refresh of what changed probably takes if a full one takes *full_s*; arguments as above."""
    fixed = _PARTIAL_S if reads_all else _FROM_CHANGES_S
    if last is None:
        share = changed_bytes / max(input_bytes, 1)
        read = _READ_SHARE if reads_all else 0.0
        return fixed + max(full_s - _FULL_S, 0.0) * (read + _CHANGED_SHARE * share)
    # As measured, if as much changes; what changes more, or is larger, costs more.
    fixed = min(last.seconds, fixed)
    grown = changed_bytes / max(last.changed_bytes, 1)
    if reads_all:
        grown = max(grown, input_bytes / max(last.input_bytes, 1))
    return fixed + (last.seconds - fixed) * grown
