"""Tests of bronze tables: records land in the sample folder, as the source has them."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.assistant.design.blueprint import Blueprint, Dataset, DatasetKind
from headrace.assistant.design.files.bronze_code import bronze_rules
from headrace.assistant.design.files.python_text import literal
from headrace.assistant.design.files.sample_records import UNREADABLE, can_be_unreadable, change_event
from headrace.assistant.design.files.sample_rows import sample_columns
from headrace.assistant.design.files.test_rows import row_text
from headrace.assistant.design.requirements import ErrorPolicy
from headrace.assistant.design.source_defaults import facts_of, format_of

_OUTCOMES = {
    ErrorPolicy.QUARANTINE: ("is_quarantined", "rows_quarantined"),
    ErrorPolicy.DEAD_LETTER: ("is_a_dead_letter", "rows_quarantined"),
    ErrorPolicy.DROP: ("is_dropped", "rows_dropped"),
}


_CSV = '",".join("" if value is None else str(value) for value in event.values())'


def conftest_text(blueprint: Blueprint) -> str:
    """``tests/conftest.py``: a fixture that writes records of each source."""
    sources = {d.source.name: d for d in blueprint.of(DatasetKind.SOURCE, DatasetKind.LIVE)}
    payloads = {name: _message(dataset) for name, dataset in sources.items() if facts_of(dataset.source).payload}
    lines = [
        '"""Records of the tests, in the form that the sources have them."""',
        "",
        *(["import json"] if any(format_of(sources[name].source) != "csv" for name in payloads) else []),
        "from itertools import count",
        "",
        "import pytest",
        "",
        "",
        "def record(source, number, event):",
        '    """A record of a source; a text is a payload that cannot be read."""',
    ]
    for name, message in payloads.items():
        text = _CSV if format_of(sources[name].source) == "csv" else "json.dumps(event)"
        lines += [
            f'    if source == "{name}":',
            f"        payload = event if isinstance(event, str) else {text}",
            f"        return {message}",
        ]
    lines += [
        "    return event",
        "",
        "",
        "@pytest.fixture",
        "def land(pipeline):",
        '    """Write events into the sample folder of a source. The first call replaces the sample."""',
        "    numbers = count(1)",
        "",
        "    def write(source, *events):",
        "        records = [record(source, next(numbers), event) for event in events]",
        '        pipeline.land(f"sample/{source}/test-{next(numbers)}.json", records)',
        "",
        "    return write",
    ]
    return "\n".join(lines) + "\n"


def bronze_test_text(dataset: Dataset, blueprint: Blueprint) -> str:
    """The tests of a bronze table."""
    head = [f'"""{dataset.name}: each record once, as it came."""']
    body = "\n\n\n".join(_tests(dataset, blueprint))
    events = "\n\n".join(_events(dataset, blueprint))
    return "\n\n".join([*head, events]) + "\n\n\n" + body + "\n"


def _events(dataset: Dataset, blueprint: Blueprint) -> Iterator[str]:
    samples = sample_columns(dataset.source, blueprint)
    for number, name in enumerate(("EVENT", "OTHER")):
        if dataset.source.is_debezium:
            yield f"{name} = {literal(change_event(dataset.source, samples.row(number), number))}"
        else:
            yield f"{name} = {row_text(samples.row(number), 0)}"


def _tests(dataset: Dataset, blueprint: Blueprint) -> Iterator[str]:
    name, source = dataset.name, dataset.source.name
    # What the history adds is the affair of another test.
    yield f"""def test_each_record_is_stored_once(pipeline, land):
    land("{source}", EVENT)
    pipeline.run("{name}")
    land("{source}", OTHER)

    result = pipeline.run("{name}")

    assert len(result.rows("{name}")) == {2 + _history_rows(dataset, blueprint)}
    assert result.counts("{name}").rows_written == 1"""
    yield f"""def test_a_record_that_the_source_repeats_is_kept_as_it_came(pipeline, land):
    land("{source}", EVENT, EVENT)

    result = pipeline.run("{name}")

    assert result.counts("{name}").rows_written == {2 + _history_rows(dataset, blueprint)}"""
    yield from _poison(dataset, blueprint)
    yield _reconciliation(dataset, blueprint)


def _poison(dataset: Dataset, blueprint: Blueprint) -> Iterator[str]:
    rules, policy = bronze_rules(dataset, blueprint), blueprint.requirements.on_error or ErrorPolicy.QUARANTINE
    if can_be_unreadable(dataset.source) and not dataset.source.is_debezium:
        yield _wrong(dataset, blueprint, "a_record_that_cannot_be_read", literal(UNREADABLE), policy)
    key = next((rule.removeprefix("has ") for rule in rules if rule.startswith("has ")), None)
    if key is not None:
        # Only records that cannot be read are dead letters.
        action = ErrorPolicy.QUARANTINE if policy is ErrorPolicy.DEAD_LETTER else policy
        yield _wrong(dataset, blueprint, f"a_record_without_{key}", f'{{**EVENT, "{key}": None}}', action)


def _wrong(dataset: Dataset, blueprint: Blueprint, what: str, record: str, policy: ErrorPolicy) -> str:
    name, source = dataset.name, dataset.source.name
    if policy is ErrorPolicy.FAIL:
        return f"""def test_{what}_fails_the_flow(pipeline, land):
    land("{source}", EVENT, {record})

    result = pipeline.run("{name}")

    assert result.states["{name}"].value == "FAILED"
    assert result.counts("{name}").rows_written == {_history_rows(dataset, blueprint)}"""
    outcome, count = _OUTCOMES[policy]
    return f"""def test_{what}_{outcome}(pipeline, land):
    land("{source}", EVENT, {record})

    result = pipeline.run("{name}")

    assert result.counts("{name}").rows_written == {1 + _history_rows(dataset, blueprint)}
    assert result.counts("{name}").{count} == 1"""


def _reconciliation(dataset: Dataset, blueprint: Blueprint) -> str:
    name, source = dataset.name, dataset.source.name
    folders = [source, *([f"{source}_history"] if _history_rows(dataset, blueprint) else [])]
    return f"""def test_every_record_of_the_sample_is_in_one_place(pipeline):
    folders = [pipeline.folder / "sample" / name for name in {literal(folders)}]
    records = [line for folder in folders for file in folder.glob("*.json") for line in file.open()]

    result = pipeline.run("{name}")

    counts = result.counts("{name}")
    assert len(records) == counts.rows_written + counts.rows_dropped + counts.rows_quarantined
    assert len(result.rows("{name}")) == counts.rows_written"""


def _history_rows(dataset: Dataset, blueprint: Blueprint) -> int:
    """The number of rows that the history of the sample adds."""
    history = blueprint.requirements.history
    first = dataset.source is blueprint.requirements.sources[0]
    return HISTORY_ROWS if first and history is not None and history.path is not None else 0


# As in `sample_records.py`.
HISTORY_ROWS = 6


def _message(dataset: Dataset) -> str:
    """The code of a message of a source."""
    source, facts = dataset.source, facts_of(dataset.source)
    key = "key" if facts.reader == "kafka" else "partitionKey"
    place = {
        "topic": literal(source.options.get("subscribe", source.name)),
        "partition": "0" if facts.reader == "kafka" else '"0"',
        "offset": "number",
        "timestamp": '"2025-01-01T00:00:00Z"',
        "sequenceNumber": "number" if facts.reader == "eventhubs" else 'f"{number:020}"',
        "enqueuedTime": '"2025-01-01T00:00:00Z"',
        "shardId": '"shardId-000000000000"',
        "approximateArrivalTimestamp": '"2025-01-01T00:00:00Z"',
    }
    entries = [f'"{key}": None', f'"{facts.payload}": payload', *(f'"{name}": {place[name]}' for name in facts.origin)]
    return "{\n            " + ",\n            ".join(entries) + ",\n        }"
