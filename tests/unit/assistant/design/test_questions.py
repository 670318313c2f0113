"""Questions: what a design asks, what it takes as given, and how answers get into the file."""

from __future__ import annotations

import json

import pytest
from tests.design_matrix import parsed

from headrace.assistant.design.answers import with_answer
from headrace.assistant.design.design import make_design
from headrace.assistant.design.questions import open_questions
from headrace.errors import PipelineError

ANSWERS = {
    "kind": "kafka",
    "schema": "event_id STRING, at TIMESTAMP, price DECIMAL(10,2), tags MAP<STRING, INT>",
    "keys": "event_id",
    "on": "event_id",
    "event_time": "at",
    "gap": "30 minutes",
    "within": "10 minutes",
}


def asked(requirements):
    return [question.id for question in open_questions(requirements)]


@pytest.mark.parametrize("name", ["kafka_bronze", "session_metrics", "late_events"])
def test_nothing_is_asked_if_the_example_answers_everything(example, name):
    requirements = parsed(example(name))

    assert open_questions(requirements) == ()
    assert make_design(requirements).decisions


@pytest.mark.parametrize(
    ("name", "line", "question", "is_needed"),
    [
        ("kafka_bronze", "kind: kafka", "sources.user_events.kind", True),
        ("kafka_bronze", "latency", "latency", False),
        ("kafka_bronze", "on_error", "on_error", False),
        ("session_metrics", "gap", "outputs.user_sessions.gap", True),
        ("session_metrics", "event_time: ", "sources.clicks.event_time", True),
        ("session_metrics", "state", "state.memory", False),
        ("late_events", "lateness", "lateness.within", True),
        ("late_events", "guarantee", "guarantee", False),
    ],
)
def test_an_answer_that_is_missing_is_asked_for(example, name, line, question, is_needed):
    requirements = parsed(example(name, without=line))

    (found,) = open_questions(requirements)
    assert (found.id, found.is_needed) == (question, is_needed)
    with pytest.raises(PipelineError, match=question):
        make_design(requirements)
    if is_needed:
        with pytest.raises(PipelineError, match=question):
            make_design(requirements, defaults=True)
    else:
        made = make_design(requirements, defaults=True)
        (decision,) = [decision for decision in made.decisions if decision.id == f"default.{question}"]
        assert (decision.choice, "default, because" in decision.reason) == (found.default, True)


def test_the_six_questions_are_asked_of_a_stream_with_state(requirements):
    open_answers = dict.fromkeys(("latency", "lateness", "state", "guarantee", "on_error", "history"))
    source = {"kind": None, "schema": None, "event_time": None, "keys": None, "events_per_s": None}

    found = requirements({"name": "s", "kind": "sessions"}, source=source, **open_answers)

    assert asked(found) == [
        *("sources.events.kind", "sources.events.schema", "sources.events.event_time"),
        *("sources.events.events_per_s", "latency", "lateness.within", "state.memory"),
        *("guarantee", "on_error", "history", "outputs.s.keys", "outputs.s.gap"),
    ]


def test_lateness_is_not_asked_for_if_no_stream_keeps_state(requirements):
    windows = {"name": "w", "kind": "windows", "size": "1 hour", "keys": ["user_id"]}
    sink = {"name": "out", "kind": "sink", "from": "w", "format": "kafka"}

    assert asked(requirements(lateness=None, state=None)) == []
    assert asked(requirements(windows, latency="1 day", lateness=None, state=None)) == []
    # A sink reads its input as a stream.
    assert "lateness.within" in asked(requirements(windows, sink, latency="1 day", lateness=None, state=None))


def test_what_an_output_lacks_is_asked_for(requirements):
    found = requirements(
        {"name": "w", "kind": "windows"},
        {"name": "j", "kind": "join"},
        {"name": "e", "kind": "enrich", "with": "j"},
        {"name": "k", "kind": "sink"},
        {"name": "c", "kind": "scd1"},
        source={"event_time": None, "keys": None},
    )

    assert asked(found) == [
        *("sources.events.event_time", "sources.events.keys"),
        *("outputs.w.keys", "outputs.w.size", "outputs.j.with", "outputs.j.within", "outputs.e.on", "outputs.k.format"),
        "outputs.c.sequence_by",
    ]


@pytest.mark.parametrize(
    ("other", "is_asked"),
    [
        ("payments", True),
        ("good_payments", True),
        # Windows have a time of their own.
        ("paid", False),
    ],
)
def test_the_other_side_of_a_join_is_asked_for_its_event_time(requirements, other, is_asked):
    payments = {"name": "payments", "kind": "files", "schema": {"user_id": "STRING", "paid_at": "TIMESTAMP"}}
    join = {"name": "j", "kind": "join", "from": "events", "with": other, "on": ["user_id"], "within": "1 hour"}
    found = requirements(
        # `at` is the time of the main side alone.
        {**join, "at": "at"},
        {"name": "good_payments", "kind": "clean", "from": "payments"},
        {"name": "paid", "kind": "windows", "from": "payments", "keys": ["user_id"], "size": "1 hour", "at": "paid_at"},
        sources=[{**payments, "events_per_s": 1}],
    )

    assert asked(found) == (["sources.payments.event_time"] if is_asked else [])


def test_sources_that_are_known_are_not_asked_for_columns(requirements):
    source = {"kind": "synthetic", "schema": None, "event_time": None, "keys": None}

    found = make_design(requirements(source=source))

    assert found.blueprint.datasets[0].event_time == "event_time"


@pytest.mark.parametrize(
    "text",
    [
        "name: a\nsources:\n  - name: events # ours\noutputs:\n  - name: s\n    kind: sessions\n",
        "name: a\nsources: [{name: events}]\noutputs: [{name: s, kind: sessions}]\nlateness: {share: 0.99}",
        "name: a\noutputs:\n- kind: sessions\n  name: s\n\n# the end\nsources:\n- name: events\n  options:\n    a: b\n",
    ],
)
def test_answers_are_written_into_the_file_and_leave_the_rest_as_it_was(text):
    before = text
    while questions := open_questions(parsed(text)):
        question = questions[0]
        text = with_answer(text, question, question.default or ANSWERS[question.id.rpartition(".")[2]])

    found = parsed(text)
    assert [column.name for column in found.sources[0].columns] == ["event_id", "at", "price", "tags"]
    assert (found.outputs[0].gap_s, found.lateness.within_s, found.latency_s) == (1800, 600, 300)
    assert [line for line in before.splitlines() if "#" in line and line not in text] == []


def test_an_answer_with_special_characters_stays_text(requirements):
    text = "name: a\nsources:\n  - name: events\noutputs: [{name: b, kind: bronze}]\nhistory: none\n"
    (question,) = [one for one in open_questions(parsed(text)) if one.id == "latency"]

    for answer in ('5 minutes # "or so"', "no", "{a: b}", "- x"):
        assert f"latency: {json.dumps(answer)}\n" in with_answer(text, question, answer)
