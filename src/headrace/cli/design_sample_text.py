"""What `headrace design --sample` prints: the measures of samples, proposals and contradictions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from headrace.assistant.design.requirements import Requirements
from headrace.assistant.design.sampling.finding import NO_FINDINGS, Findings
from headrace.assistant.design.sampling.notes import notes
from headrace.assistant.design.sampling.proposals import rows_text, share_text
from headrace.assistant.design.sampling.sample import ColumnMeasure, SampleMeasures
from headrace.cli.printable import printable
from headrace.cli.tables import text_table


@dataclass(frozen=True)
class Sampled:
    """Requirements with what samples propose, and the measures of the samples."""

    requirements: Requirements
    findings: Findings = NO_FINDINGS
    measures: tuple[SampleMeasures, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The keys that samples add to the JSON of a design; none without samples."""
        if not self.measures:
            return {}
        return {
            "samples": [
                {**one.to_json(), "notes": list(notes(self.requirements, self.findings, one))} for one in self.measures
            ],
            "proposals": [proposal.to_json() for proposal in self.findings.proposals],
            "contradictions": [contradiction.to_json() for contradiction in self.findings.contradictions],
        }


def sampled_lines(sampled: Sampled) -> Iterator[str]:
    """The measures, proposals and contradictions as text."""
    for measures in sampled.measures:
        yield from map(_shown, _sample_lines(measures))
        yield from (f"  note: {_shown(note)}" for note in notes(sampled.requirements, sampled.findings, measures))
        yield ""
    for proposal in sampled.findings.proposals:
        yield f"proposed {proposal.path}"
        yield f"  {proposal.answer}"
        yield f"  measured: {proposal.figure}"
        yield f"  page: {proposal.page}"
    for one in sampled.findings.contradictions:
        yield f"differs {_shown(one.path)}"
        yield f"  stated: {_shown(one.stated)}"
        yield f"  measured: {_shown(one.figure)}"
        yield f"  remedy: {one.remedy}"
        yield f"  page: {one.page}"
    if sampled.measures:
        found = sampled.findings
        yield f"{len(found.proposals)} proposed from samples, {len(found.contradictions)} contradictions"
        yield ""


def _sample_lines(measures: SampleMeasures) -> Iterator[str]:
    extent = "" if measures.is_whole else ", not all records"
    yield (
        f"sample of {measures.source}: {rows_text(measures)} in {measures.files:,} of {measures.files_found:,} files "
        f"({measures.format}){extent}"
    )
    rows = [_row(column, measures) for column in measures.columns]
    yield from text_table(("column", "type", "null", "unique", "times", "in order"), rows).splitlines()


def _row(column: ColumnMeasure, measures: SampleMeasures) -> tuple[str, ...]:
    time = column.time
    return (
        column.name,
        column.column.ddl.partition(" ")[2],
        share_text(column.nulls / measures.rows if measures.rows else 0),
        share_text(column.unique),
        "" if time is None else share_text(time.parsed),
        "" if time is None else share_text(time.in_order),
    )


def _shown(text: str) -> str:
    return printable(text)
