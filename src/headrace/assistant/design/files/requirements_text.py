"""``requirements.yml``: the requirements with every answer, also those that were defaults."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from headrace.assistant.design.durations import interval
from headrace.assistant.design.requirements import Output, Requirements, Source
from headrace.model.schema import type_text
from headrace.model.sizes import size_text

_NONE: Mapping[str, str] = MappingProxyType({})
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", ""})
_NUMBER = re.compile(r"[-+]?[0-9][0-9_.]*(?:e[-+]?[0-9]+)?|[0-9]{4}-[0-9]{2}-[0-9]{2}", re.IGNORECASE)


def requirements_text(requirements: Requirements, marks: Mapping[str, str] = _NONE) -> str:
    """The text of the file.

    Args:
        requirements: with every answer.
        marks: comments on answers by their path, such as ``sources.events.keys``.
    """
    return "\n".join(_lines(requirements, marks)) + "\n"


def answer_at(requirements: Requirements, path: str) -> Any:
    """The answer at a path, such as ``latency`` or ``sources.events.keys``, as JSON has it; None if it is open."""
    group, _, rest = path.partition(".")
    found: Any = _answers(requirements)
    if group in ("sources", "outputs"):
        items = map(_source, requirements.sources) if group == "sources" else map(_output, requirements.outputs)
        name, _, path = rest.partition(".")
        found = next((item for item in items if item["name"] == name), None)
    for key in path.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    return None if found is None else json.loads(json.dumps(found, default=dict))


def _lines(requirements: Requirements, marks: Mapping[str, str]) -> Iterator[str]:
    yield "# What the pipeline must do. `headrace design requirements.yml --out DIR` makes the project again."
    yield f"name: {requirements.name}"
    yield "sources:"
    for source in requirements.sources:
        yield from _item(_source(source), f"sources.{source.name}", marks)
    yield "outputs:"
    for output in requirements.outputs:
        yield from _item(_output(output), f"outputs.{output.name}", marks)
    yield from _entries(_answers(requirements), "", "", marks)


def _answers(requirements: Requirements) -> dict[str, Any]:
    lateness, history = requirements.lateness, requirements.history
    known = lateness.within_s is not None or lateness.measure_from is not None
    return {
        "latency": None if requirements.latency_s is None else interval(requirements.latency_s),
        "lateness": {
            "within": None if lateness.within_s is None else interval(lateness.within_s),
            "share": lateness.share,
            "measure_from": lateness.measure_from,
            "scenario": lateness.scenario,
        }
        if known
        else None,
        "state": {
            "memory": None if requirements.memory_bytes is None else _size(requirements.memory_bytes),
            "keys": requirements.keys,
        },
        "guarantee": requirements.guarantee,
        "on_error": requirements.on_error.value if requirements.on_error else None,
        "history": {"from": history.path, "format": history.format} if history and history.path else "none",
        "alerts": requirements.alerts,
    }


def _source(source: Source) -> dict[str, Any]:
    return {
        "name": source.name,
        "kind": source.kind.value if source.kind else None,
        "format": source.format,
        "schema": {column.name: _type(column.type) for column in source.columns},
        "event_time": source.event_time,
        "keys": source.keys,
        "duplicates": _number(source.duplicate_share) if source.duplicate_share else "no",
        "events_per_s": _number(source.events_per_s),
        "peak": _number(source.peak),
        "retention": None if source.retention_s is None else interval(source.retention_s),
        "options": source.options,
    }


def _output(output: Output) -> dict[str, Any]:
    seconds = {"latency": output.latency_s, "size": output.size_s, "slide": output.slide_s, "gap": output.gap_s}
    return {
        "name": output.name,
        "kind": output.kind.value,
        "from": output.reads,
        "with": output.joins,
        "comment": output.comment or None,
        "on": output.on,
        "keys": output.keys,
        "at": output.at,
        "columns": output.columns,
        "rules": output.rules,
        "aggregates": output.aggregates,
        **{name: None if value is None else interval(value) for name, value in seconds.items()},
        "within": None if output.within_s is None else interval(output.within_s),
        "how": output.how if output.within_s is not None else None,
        "sequence_by": output.sequence_by,
        "deletes": output.deletes,
        "where": output.where,
        "format": output.format,
        "options": output.options,
    }


def _item(values: Mapping[str, Any], path: str, marks: Mapping[str, str]) -> Iterator[str]:
    lines = list(_entries(values, "    ", path, marks))
    yield f"  - {lines[0].strip()}"
    yield from lines[1:]


def _entries(values: Mapping[str, Any], margin: str, path: str, marks: Mapping[str, str]) -> Iterator[str]:
    for name, value in values.items():
        if value is None or value in ({}, ()):
            continue
        inner_path = f"{path}.{name}" if path else name
        mark = f"  # {marks[inner_path]}" if inner_path in marks else ""
        if isinstance(value, Mapping):
            inner = list(_entries(value, f"{margin}  ", inner_path, marks))
            if inner:
                yield f"{margin}{_scalar(name)}:{mark}"
                yield from inner
        elif isinstance(value, Sequence) and not isinstance(value, str):
            yield f"{margin}{name}: [{', '.join(map(_scalar, value))}]{mark}"
        else:
            yield f"{margin}{_scalar(name)}: {_scalar(value)}{mark}"


def _scalar(value: Any) -> str:
    """A scalar of YAML: plain if it is a word, else quoted, which JSON's strings are."""
    if not isinstance(value, str):
        return str(value)
    plain = value.replace(" ", "").replace("_", "").replace("-", "")
    # Words that YAML would read as something else.
    return value if plain.isalnum() and not _is_special(value) else json.dumps(value, ensure_ascii=False)


def _is_special(value: str) -> bool:
    return value.casefold() in _WORDS or _NUMBER.fullmatch(value) is not None


def _type(kind: Any) -> str:
    text = type_text(kind)
    return text.upper() if isinstance(kind, str) else text


def _number(value: float | None) -> Any:
    return int(value) if value is not None and value == int(value) else value


def _size(size_bytes: int) -> str:
    text = size_text(size_bytes)
    number, _, unit = text.partition(" ")
    # Rounded text must not change the value.
    exact = {"KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}.get(unit)
    whole = exact is not None and size_bytes % (1 << exact) == 0
    return f"{number.removesuffix('.0')} {unit}" if whole else f"{size_bytes} B"
