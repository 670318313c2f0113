"""The success checklist: each criterion with its status, the evidence for it, and what to do next.

Law: a criterion passes only with evidence that it is met. Without evidence, for or against, its status is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.assistant.doctor.checks import Severity
from headrace.assistant.doctor.criteria import Criterion, criteria
from headrace.assistant.doctor.diagnose import diagnose
from headrace.assistant.doctor.evidence import operation, project
from headrace.assistant.doctor.evidence.status import Evidence, Status, unknown
from headrace.assistant.doctor.facts import Facts
from headrace.assistant.doctor.findings import Finding
from headrace.assistant.doctor.programs import defined_datasets, is_of

__all__ = ["Checklist", "Result", "Status", "check_criteria"]


@dataclass(frozen=True)
class Result:
    """The status of a criterion.

    Attributes:
        criterion: the criterion.
        status: whether it is met.
        evidence: what was seen, or what is missing.
        next_step: what to do; None if it is met.
    """

    criterion: Criterion
    status: Status
    evidence: str
    next_step: str | None

    def to_json(self) -> dict[str, Any]:
        """The result as one JSON object."""
        return {
            "criterion": self.criterion.criterion_id,
            "status": self.status.value,
            "evidence": self.evidence,
            "next": self.next_step,
            "points": list(self.criterion.points),
        }


@dataclass(frozen=True)
class Checklist:
    """All criteria, in order."""

    results: tuple[Result, ...]

    def passes(self, *, strict: bool) -> bool:
        """Whether no criterion fails; if strict, whether all pass."""
        failing = {Status.FAIL, Status.UNKNOWN} if strict else {Status.FAIL}
        return not any(result.status in failing for result in self.results)

    @property
    def next_step(self) -> str | None:
        """What to do first: for the first criterion that fails, else for the first that is unknown."""
        for status in (Status.FAIL, Status.UNKNOWN):
            for result in self.results:
                if result.status is status:
                    return result.next_step
        return None

    def to_json(self) -> dict[str, Any]:
        """The checklist as one JSON object."""
        return {"criteria": [result.to_json() for result in self.results], "next": self.next_step}


_EVIDENCE: Mapping[str, Callable[[Facts], Evidence]] = {
    "checkpointing": operation.checkpoints,
    "watermark": operation.watermark_delays,
    "fault-tolerance": project.crash_tests,
    "lag": operation.lag,
    "memory": operation.memory,
    "errors": project.error_actions,
    "monitoring": project.channels,
    "documentation": project.documentation,
}

# Words in the names of the parts that show whether a criterion is met.
_READS: Mapping[str, tuple[str, ...]] = {
    "checkpointing": ("checkpoint", "event log"),
    "watermark": ("checkpoint", "event log", "program text"),
    "fault-tolerance": ("checkpoint", "event log", "crash tests"),
    "lag": ("metrics", "event log", operation.REQUIREMENTS),
    "memory": ("checkpoint", "metrics", "event log", "machine"),
    "errors": ("metrics", "event log", "program text", "alerts"),
    "monitoring": ("alerts",),
    "documentation": ("event log", "documents"),
}
# What a later update can change by a new dataset.
_OF_DATASETS = frozenset({"checkpointing", "watermark", "lag", "memory", "errors", "documentation"})


def check_criteria(facts: Facts) -> Checklist:
    """The checklist of a pipeline."""
    findings = diagnose(facts).findings
    return Checklist(tuple(_result(criterion, facts, findings) for criterion in criteria().values()))


def _result(criterion: Criterion, facts: Facts, findings: tuple[Finding, ...]) -> Result:
    failing = next((one for one in findings if _fails(criterion, one)), None)
    if failing is not None:
        return Result(criterion, Status.FAIL, failing.evidence, failing.next_step)
    evidence = _EVIDENCE[criterion.criterion_id](facts)
    parts = _READS[criterion.criterion_id]
    unread = next((one for one in facts.unread if any(part in one.part for part in parts)), None)
    if unread is not None and evidence.status is not Status.FAIL:
        place = f"{unread.path}: " if unread.path else ""
        text = f"{unread.part} cannot be read: {place}{unread.reason}"
        evidence = unknown(text, unread.next_step or "headrace doctor")
    elif evidence.status is Status.PASS and criterion.criterion_id in _OF_DATASETS:
        evidence = _if_all_have_run(facts, evidence)
    next_step = None if evidence.status is Status.PASS else evidence.next_step
    return Result(criterion, evidence.status, evidence.text, next_step)


def _if_all_have_run(facts: Facts, evidence: Evidence) -> Evidence:
    """The evidence, unless the program has a dataset that no update knows: nothing is known of that one."""
    known = facts.logged.datasets
    new = sorted(
        name for name in defined_datasets(facts.programs) if known and not any(is_of(one, name) for one in known)
    )
    return unknown(f'dataset "{new[0]}" of the program has not run', "headrace run") if new else evidence


def _fails(criterion: Criterion, finding: Finding) -> bool:
    check_id = finding.check.check_id
    if finding.severity is Severity.ADVICE:
        return check_id in criterion.with_advice
    return check_id in criterion.checks or check_id in criterion.with_advice
