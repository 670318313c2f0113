"""How much state streams keep: distinct keys within the window and the delay, times the bytes of a row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any

from headrace.assistant.design.blueprint import Blueprint, Dataset, DatasetKind
from headrace.assistant.design.decisions.decision import Decision
from headrace.assistant.design.decisions.row_sizes import row_bytes
from headrace.assistant.design.durations import spoken
from headrace.assistant.design.requirements import Column, Output
from headrace.model.sizes import size_text

_PAGE = "guides/state"
# What a state store adds to a row: its key's copy, version and index.
_OVERHEAD_BYTES = 64


@dataclass(frozen=True)
class StateEstimate:
    """The state of one dataset: entries at the average rate, and their bytes; at the peak, up to ``peak_bytes``."""

    dataset: str
    entries: int
    bytes_per_entry: int
    peak: float
    basis: str

    @property
    def bytes(self) -> int:
        """The bytes at the average rate."""
        return self.entries * self.bytes_per_entry

    @property
    def peak_bytes(self) -> int:
        """The bytes if the peak lasts."""
        return ceil(self.bytes * self.peak)

    def to_json(self) -> dict[str, Any]:
        """The estimate as one JSON object."""
        return {
            "dataset": self.dataset,
            "entries": self.entries,
            "bytes_per_entry": self.bytes_per_entry,
            "bytes": self.bytes,
            "peak_bytes": self.peak_bytes,
            "basis": self.basis,
        }


def state_estimates(blueprint: Blueprint, delay_s: float) -> tuple[StateEstimate, ...]:
    """The estimates of all datasets that keep state."""
    return tuple(_estimate(one, blueprint, delay_s) for one in blueprint.datasets if one.keeps_state)


def state_decisions(blueprint: Blueprint, delay_s: float) -> Iterator[Decision]:
    """Whether the state of each dataset, and of all together, fits into the memory."""
    estimates = state_estimates(blueprint, delay_s)
    memory = blueprint.requirements.memory_bytes
    if not estimates or memory is None:
        return
    total, peak = sum(one.bytes for one in estimates), sum(one.peak_bytes for one in estimates)
    falls_short = total > memory
    if falls_short:
        verdict = "more than the memory, so RocksDB reads it from disk, and batches get slower"
    else:
        verdict = (
            "within the memory" if peak <= memory else "within the memory on average, and more while the peak lasts"
        )
    yield Decision(
        "state",
        f"about {size_text(total)} in RocksDB, up to {size_text(peak)} at the peak, of {size_text(memory)}",
        f"{'; '.join(f'{one.dataset}: {one.basis}' for one in estimates)}. It is {verdict}",
        (
            "a shorter delay or window, or fewer keys: less state",
            "a materialized view: no state, and each update computes everything again",
        ),
        _PAGE,
        falls_short=falls_short,
    )


def _estimate(dataset: Dataset, blueprint: Blueprint, delay_s: float) -> StateEstimate:
    output = dataset.output
    if output is None or dataset.source.events_per_s is None:
        raise ValueError(f"{dataset.name} is not complete")
    rate, keys = dataset.source.events_per_s, blueprint.requirements.keys
    peak = dataset.source.peak
    if dataset.kind is DatasetKind.JOIN:
        other = blueprint.dataset(dataset.reads[1])
        kept_s = delay_s + (output.within_s or 0.0)
        entries = ceil((rate + (other.source.events_per_s or 0.0)) * kept_s)
        size = (row_bytes(dataset.source.columns) + row_bytes(other.columns)) // 2 + _OVERHEAD_BYTES
        basis = f"{entries:,} events of both sides within {spoken(kept_s)} x {size} bytes"
        return StateEstimate(dataset.name, entries, size, peak, basis)
    if dataset.kind is DatasetKind.DEDUP:
        entries = ceil(rate * delay_s)
        size = row_bytes(_key_columns(dataset)) + 8 + _OVERHEAD_BYTES
        return StateEstimate(
            dataset.name, entries, size, peak, f"{entries:,} keys within {spoken(delay_s)} x {size} bytes"
        )
    entries, basis = _groups(output, rate, keys, delay_s)
    size = row_bytes(dataset.columns) + _OVERHEAD_BYTES
    return StateEstimate(dataset.name, entries, size, peak, f"{basis} x {size} bytes")


def _groups(output: Output, rate: float, keys: int | None, delay_s: float) -> tuple[int, str]:
    """The open windows or sessions of all keys: not more than the events within them."""
    length_s = output.size_s or output.gap_s or 0.0
    step_s = output.slide_s or length_s
    kept_s = length_s + delay_s
    overlaps = ceil(length_s / step_s)
    events = ceil(rate * kept_s * overlaps)
    groups = events if keys is None else min(events, keys * ceil(kept_s / step_s))
    what = "windows" if output.size_s else "sessions"
    of_keys = "each event with its own key" if keys is None else f"{keys:,} keys"
    return groups, f"{groups:,} {what} within {spoken(kept_s)} ({of_keys})"


def _key_columns(dataset: Dataset) -> list[Column]:
    return [dataset.column(name) or Column(name, None) for name in dataset.keys]
