"""The diagnosis: all findings, the most severe and most causal first, and the next step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from headrace.assistant.doctor.checks import Severity, checks
from headrace.assistant.doctor.examine.alerts import examine_alerts
from headrace.assistant.doctor.examine.program_text import (
    examine_error_handling,
    examine_hidden_loss,
    examine_lint,
    examine_rate_limits,
)
from headrace.assistant.doctor.examine.progress import (
    examine_backlogs,
    examine_batches,
    examine_memory,
    examine_state_growth,
)
from headrace.assistant.doctor.examine.stores import examine_old_parts, examine_state_format, examine_stores
from headrace.assistant.doctor.examine.surroundings import examine_disk, examine_monitoring, examine_unused_files
from headrace.assistant.doctor.examine.updates import (
    examine_failures,
    examine_rescued_rows,
    examine_sinks,
    examine_table_schemas,
    examine_warnings,
)
from headrace.assistant.doctor.facts import Facts, Unread
from headrace.assistant.doctor.findings import Finding
from headrace.assistant.doctor.programs import defined_datasets
from headrace.assistant.doctor.remedies import with_edit
from headrace.errors import PipelineError
from headrace.model.names import InvalidName
from headrace.options.nearest import did_you_mean

# Of two findings about the same thing, the first one has the better evidence.
EXAMINATIONS: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    examine_stores,
    examine_state_format,
    examine_failures,
    examine_memory,
    examine_warnings,
    examine_sinks,
    examine_table_schemas,
    examine_rescued_rows,
    examine_alerts,
    examine_backlogs,
    examine_batches,
    examine_state_growth,
    examine_lint,
    examine_rate_limits,
    examine_error_handling,
    examine_hidden_loss,
    examine_unused_files,
    examine_old_parts,
    examine_disk,
    examine_monitoring,
)
_SEVERITIES = tuple(Severity)


@dataclass(frozen=True)
class Diagnosis:
    """What is wrong, the most severe and most causal finding first, and what could not be read."""

    findings: tuple[Finding, ...]
    unread: tuple[Unread, ...] = ()

    @property
    def next_step(self) -> str | None:
        """What to do first; None if nothing is wrong."""
        steps = (*(finding.next_step for finding in self.findings), *(one.next_step for one in self.unread))
        return next(filter(None, steps), None)

    @property
    def is_healthy(self) -> bool:
        """True if there is nothing but advice, and everything could be read."""
        return not self.unread and all(finding.severity is Severity.ADVICE for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """The diagnosis as one JSON object."""
        return {
            "findings": [finding.to_json() for finding in self.findings],
            "next": self.next_step,
            "unread": [{"part": one.part, "path": one.path or None, "reason": one.reason} for one in self.unread],
        }


def diagnose(facts: Facts, name: str | None = None) -> Diagnosis:
    """What is wrong with a pipeline.

    Args:
        facts: what was read of it.
        name: a flow or a dataset. Findings about others are left out, those about the whole pipeline stay.

    Raises:
        PipelineError: DOCTOR.UNKNOWN if the pipeline has no such flow or dataset.
    """
    name = None if name is None else _known_name(facts, name)
    findings = _distinct(finding for examine in EXAMINATIONS for finding in examine(facts))
    wanted = [one for one in findings if name is None or name in (one.flow, one.dataset) or _is_of_all(one)]
    depth = depths(facts)
    order = {check_id: number for number, check_id in enumerate(checks())}
    ordered = sorted(
        wanted,
        key=lambda one: (
            _SEVERITIES.index(one.severity),
            order[one.check.check_id],
            depth(one.dataset or ""),
            one.dataset or "",
            one.flow or "",
        ),
    )
    return Diagnosis(tuple(with_edit(one, facts) for one in ordered), facts.unread)


def depths(facts: Facts) -> Callable[[str], int]:
    """How many flows lie between a dataset and the sources of the pipeline, at most."""
    inputs: dict[str, set[str]] = {}
    for flow in facts.logged.flows.values():
        inputs.setdefault(flow.dataset, set()).update(flow.inputs)

    known: dict[str, int] = {}

    def depth(dataset: str) -> int:
        if dataset not in known:
            # A flow may read its own target, and definitions of several versions of the code may form a cycle.
            known[dataset] = 0
            known[dataset] = max((depth(given) + 1 for given in inputs.get(dataset, ()) if given != dataset), default=0)
        return known[dataset]

    return depth


def _distinct(findings: Iterable[Finding]) -> list[Finding]:
    """Each check once for each flow and dataset, with the highest severity of all that it found there."""
    kept: dict[tuple[str, str | None, str | None], Finding] = {}
    for finding in findings:
        key = (finding.check.check_id, finding.flow, finding.dataset)
        known = kept.setdefault(key, finding)
        worst = min((known.severity, finding.severity), key=_SEVERITIES.index)
        kept[key] = replace(known, severity=worst)
    return list(kept.values())


def _is_of_all(finding: Finding) -> bool:
    return finding.flow is None and finding.dataset is None


def _known_name(facts: Facts, name: str) -> str:
    """A flow or dataset as the pipeline writes its name: datasets ignore case, and can be qualified."""
    datasets = {*facts.logged.datasets, *(flow.dataset for flow in facts.flows), *defined_datasets(facts.programs)}
    known = {*facts.logged.flows, *facts.stored, *datasets}
    if name in known:
        return name
    naming = facts.settings.naming
    with suppress(InvalidName):
        wanted = naming.canonical(name)
        for dataset in sorted(datasets):
            if naming.canonical(dataset) == wanted:
                return dataset
    raise PipelineError("DOCTOR.UNKNOWN", name=name, suggestion=did_you_mean(name, sorted(known)))
