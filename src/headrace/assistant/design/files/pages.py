"""``design.md`` and ``checklist.md``: the decisions with their reasons, and how success is seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from headrace.assistant.design.blueprint import Blueprint, DatasetKind
from headrace.assistant.design.checklist import Criterion
from headrace.assistant.design.decisions.decision import Decision
from headrace.assistant.design.decisions.state import StateEstimate
from headrace.assistant.design.decisions.triggers import cron
from headrace.assistant.design.durations import spoken
from headrace.assistant.design.files.mermaid import mermaid
from headrace.model.sizes import size_text


def design_page(blueprint: Blueprint, decisions: Sequence[Decision], estimates: Sequence[StateEstimate]) -> str:
    """The text of ``design.md``."""
    return "\n".join(_design_lines(blueprint, decisions, estimates)) + "\n"


def checklist_page(blueprint: Blueprint, criteria: Iterable[Criterion]) -> str:
    """The text of ``checklist.md``."""
    lines = [
        f"# {blueprint.requirements.name}: checklist",
        "",
        "How each criterion of a stream in production is met, and the command that shows it. Tick what you have seen.",
        "`headrace check` examines those for which the pipeline itself has evidence.",
        "",
    ]
    for criterion in criteria:
        lines += [
            f"- [ ] **{criterion.text}.**",
            f"  How: {criterion.how}.",
            f"  Show it: `{criterion.command}`",
            *([f"  **Open:** {criterion.open}."] if criterion.open else []),
        ]
    return "\n".join(lines) + "\n"


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """A table of Markdown."""
    lines = [" | ".join(heads), " | ".join("---" for _ in heads)]
    lines += [" | ".join(str(cell).replace("|", "\\|") for cell in row) for row in rows]
    return [f"| {line} |" for line in lines]


def run_commands(blueprint: Blueprint) -> list[str]:
    """The commands that start the pipeline, in the order in which a reader tries them."""
    production = "headrace run --profile production"
    schedule = [] if blueprint.is_continuous else [f"{cron(blueprint)}  cd PROJECT && {production}"]
    return ["headrace validate", "pytest", "headrace run", production, *schedule]


def _design_lines(
    blueprint: Blueprint, decisions: Sequence[Decision], estimates: Sequence[StateEstimate]
) -> Iterator[str]:
    yield f"# {blueprint.requirements.name}: design"
    yield ""
    yield "Made from requirements.yml by `headrace design`. Change the requirements, not this page."
    yield from ["", "```mermaid", *mermaid(blueprint).splitlines(), "```", "", "## Datasets", ""]
    yield from table(("name", "kind", "layer", "reads", "latency"), _datasets(blueprint))
    short = [decision for decision in decisions if decision.falls_short]
    if short:
        yield from ["", "## Where it falls short", ""]
        yield from (f"- **{one.id}**: {one.choice}, because {one.reason}." for one in short)
    yield from ["", "## Decisions", ""]
    yield "Each decision names the page of the knowledge base that explains it: `headrace docs get CATEGORY NAME`."
    for decision in decisions:
        yield from _decision(decision)
    if estimates:
        yield from ["", "## State", ""]
        rows = [
            (e.dataset, f"{e.entries:,}", e.bytes_per_entry, size_text(e.bytes), size_text(e.peak_bytes))
            for e in estimates
        ]
        yield from table(("dataset", "entries", "bytes each", "on average", "at the peak"), rows)
    yield from ["", "## Run it", ""]
    yield from (f"    {command}" for command in run_commands(blueprint))


def _datasets(blueprint: Blueprint) -> Iterator[Sequence[object]]:
    for dataset in blueprint.datasets:
        stored = "view" if dataset.kind.is_view else "table" if dataset.is_stream else "materialized view"
        kind = "sink" if dataset.kind is DatasetKind.SINK else f"{dataset.kind.value}, {stored}"
        reads = ", ".join(dataset.reads) or dataset.source.name
        yield (f"`{dataset.name}`", kind, dataset.kind.layer or "-", reads, spoken(dataset.latency_s))


def _decision(decision: Decision) -> Iterator[str]:
    category, _, name = decision.page.partition("/")
    yield from ["", f"### {decision.id}", "", f"**{decision.choice}**", ""]
    yield f"- Why: {decision.reason}."
    yield from (f"- Instead: {alternative}." for alternative in decision.alternatives)
    yield f"- Read: `headrace docs get {category} {name}`"
