"""The expectations of a dataset, each with its counts over time. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.events.recorded import Recorded
from headrace.events.types import BatchDone, TableEvaluated
from headrace.model.expectations import ExpectationCount
from headrace.serve.formats import iso


def expectation_facts(reports: Iterable[Recorded], dataset: str) -> list[dict[str, Any]]:
    """The expectations in some batches, each with its counts over time, oldest first."""
    found: dict[str, list[tuple[Recorded, ExpectationCount]]] = {}
    for one in reports:
        for count in _counts(one, dataset):
            found.setdefault(count.name, []).append((one, count))
    return [
        {
            "name": name,
            "action": counts[-1][1].action.value,
            "passed": sum(count.passed for _, count in counts),
            "failed": sum(count.failed for _, count in counts),
            "over_time": [
                {"at": iso(one.at), "update_id": one.update_id, "passed": count.passed, "failed": count.failed}
                for one, count in counts
                if count.passed + count.failed
            ],
        }
        for name, counts in found.items()
    ]


def _counts(one: Recorded, dataset: str) -> tuple[ExpectationCount, ...]:
    match one.event:
        case BatchDone(dataset=written, counts=counts) if written == dataset:
            return counts.expectations
        case TableEvaluated(dataset=written, expectations=expectations) if written == dataset:
            return expectations
        case _:
            return ()
