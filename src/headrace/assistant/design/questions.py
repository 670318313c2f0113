"""What a design must still know: the six questions of every stream, and what its outputs need."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from headrace.assistant.design.requirements import (
    CHANGES,
    STATEFUL,
    ErrorPolicy,
    History,
    Output,
    OutputKind,
    Requirements,
    Source,
)
from headrace.assistant.design.suitability import is_recomputed

DEFAULT_LATENCY_S = 300.0
_GIB = 1 << 30
# Kinds that compare events by what identifies them; others group them by columns of their own.
_BY_IDENTITY = (OutputKind.DEDUP, *CHANGES)
_GROUPING = (OutputKind.WINDOWS, OutputKind.SESSIONS)
_JOINING = (OutputKind.JOIN, OutputKind.ENRICH)

# The fields of answers that have a default, by their path; a source has the rate.
_FIELDS: Mapping[str, str] = {
    "latency": "latency_s",
    "state.memory": "memory_bytes",
    "guarantee": "guarantee",
    "on_error": "on_error",
    "history": "history",
}


@dataclass(frozen=True)
class Question:
    """An open question. ``id`` is the path of the answer, such as ``latency`` or ``sources.events.keys``."""

    id: str
    text: str
    why: str
    default: str | None
    consequence: str
    page: str

    @property
    def is_needed(self) -> bool:
        """Whether there is no safe default."""
        return self.default is None

    def to_json(self) -> dict[str, Any]:
        """The question as one JSON object."""
        return {
            "id": self.id,
            "text": self.text,
            "why": self.why,
            "default": self.default,
            "consequence": self.consequence or None,
            "page": self.page,
            "needed": self.is_needed,
        }


def open_questions(requirements: Requirements) -> tuple[Question, ...]:
    """The questions that the requirements do not answer, in the order of the keys."""
    return (
        *(question for source in requirements.sources for question in _of_source(source, requirements)),
        *_of_all(requirements),
        *(question for output in requirements.outputs for question in _of_output(output, requirements)),
    )


def with_defaults(requirements: Requirements) -> Requirements:
    """The requirements with the default of every answer that is missing and has one."""
    known = {name: entry["default"] for name, entry in _texts().items() if "default" in entry}
    sources = tuple(
        replace(source, events_per_s=source.events_per_s or float(known["sources.events_per_s"]))
        for source in requirements.sources
    )
    return replace(
        requirements,
        sources=sources,
        latency_s=requirements.latency_s or DEFAULT_LATENCY_S,
        memory_bytes=requirements.memory_bytes or _GIB,
        guarantee=requirements.guarantee or known["guarantee"],
        on_error=requirements.on_error or ErrorPolicy(known["on_error"]),
        history=requirements.history or History(),
    )


def without_answers(requirements: Requirements, paths: Iterable[str]) -> Requirements:
    """The requirements without the answers at the paths of questions that have a default."""
    for path in paths:
        if path in _FIELDS:
            nothing: Mapping[str, Any] = {_FIELDS[path]: None}
            requirements = replace(requirements, **nothing)
        elif path.startswith("sources."):
            name = path.split(".")[1]
            sources = (replace(one, events_per_s=None) if one.name == name else one for one in requirements.sources)
            requirements = replace(requirements, sources=tuple(sources))
    return requirements


def _of_source(source: Source, requirements: Requirements) -> Iterator[Question]:
    path = f"sources.{source.name}"
    readers = [output for output in requirements.outputs if requirements.root(output) is source]
    if source.kind is None:
        yield _question("sources.kind", f"{path}.kind", source.name)
    if not source.columns:
        yield _question("sources.schema", f"{path}.schema", source.name)
    timed = any(output.kind in STATEFUL and not output.at for output in readers)
    if source.event_time is None and (timed or _gives_time_to_join(source, requirements)):
        yield _question("sources.event_time", f"{path}.event_time", source.name)
    keyed = [output for output in readers if output.kind in _BY_IDENTITY and not output.keys]
    if not source.keys and keyed:
        yield _question("sources.keys", f"{path}.keys", source.name)
    if source.events_per_s is None:
        yield _question("sources.events_per_s", f"{path}.events_per_s", source.name)


def _gives_time_to_join(source: Source, requirements: Requirements) -> bool:
    """Whether the other side of a join has the event time of a source; `at` of a join is the one of its main side."""
    joins = (output for output in requirements.outputs if output.kind is OutputKind.JOIN)
    return any(source.name in _sources_of_time(output.joins or "", requirements) for output in joins)


def _sources_of_time(name: str, requirements: Requirements) -> Iterator[str]:
    """The source whose event time a source or an output has; none if the output has a time of its own."""
    seen: set[str] = set()
    while (output := requirements.output(name)) is not None and name not in seen:
        seen.add(name)
        if output.at or output.kind in _GROUPING:
            return
        name = output.reads
    yield name


def _of_all(requirements: Requirements) -> Iterator[Question]:
    if requirements.latency_s is None and any(output.latency_s is None for output in requirements.outputs):
        yield _question("latency", "latency")
    if needs_lateness(requirements):
        if requirements.lateness.within_s is None and requirements.lateness.measure_from is None:
            yield _question("lateness.within", "lateness.within")
        if requirements.memory_bytes is None:
            yield _question("state.memory", "state.memory")
    for name in ("guarantee", "on_error", "history"):
        if getattr(requirements, name) is None:
            yield _question(name, name)


def needs_lateness(requirements: Requirements) -> bool:
    """Whether an output keeps state between batches."""
    complete = replace(requirements, latency_s=requirements.latency_s or DEFAULT_LATENCY_S)
    return any(output.kind in STATEFUL and not is_recomputed(output, complete) for output in complete.outputs)


def _of_output(output: Output, requirements: Requirements) -> Iterator[Question]:
    missing = {
        "from": not output.reads,
        "keys": output.kind in _GROUPING and not output.keys,
        "size": output.kind is OutputKind.WINDOWS and output.size_s is None,
        "gap": output.kind is OutputKind.SESSIONS and output.gap_s is None,
        "with": output.kind in _JOINING and not output.joins,
        "on": output.kind in _JOINING and bool(output.joins) and not join_keys(output, requirements),
        "within": output.kind is OutputKind.JOIN and output.within_s is None,
        "format": output.kind is OutputKind.SINK and not output.format,
        "sequence_by": output.kind in CHANGES and not output.sequence_by and _has_no_order(output, requirements),
    }
    for name, is_open in missing.items():
        if is_open:
            yield _question(f"outputs.{name}", f"outputs.{output.name}.{name}", output.name)


def join_keys(output: Output, requirements: Requirements) -> tuple[str, ...]:
    """The columns that both sides of a join or an enrichment have; reference data is found by its own keys."""
    other = requirements.source(output.joins or "")
    return output.on or (other.keys if other is not None and output.kind is OutputKind.ENRICH else ())


def _has_no_order(output: Output, requirements: Requirements) -> bool:
    root = requirements.root(output)
    return root is not None and root.event_time is None and not root.is_debezium


def _question(key: str, path: str, name: str = "") -> Question:
    entry = _texts()[key]
    return Question(
        id=path,
        text=entry["text"].format(name=name),
        why=entry["why"],
        default=entry.get("default"),
        consequence=entry.get("consequence", ""),
        page=entry["page"],
    )


@cache
def _texts() -> Mapping[str, Mapping[str, str]]:
    text = files("headrace.assistant.design").joinpath("questions.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
