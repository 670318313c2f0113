"""What a project shows: crash tests, actions for bad records, channels of alerts, comments and documents."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from headrace.alerts.conditions import findings
from headrace.assistant.doctor.evidence.status import Evidence, counted, met, missed, unknown
from headrace.assistant.doctor.examine.program_text import has_expectations
from headrace.assistant.doctor.facts import Facts
from headrace.assistant.doctor.programs import datasets_with, is_of
from headrace.events.types import FlowDefined
from headrace.model.datasets import Kind
from headrace.model.dead_letter_policy import FAILING_ROWS_KEY

DESIGN, RUNBOOK = "design.md", "runbook.md"
# Rules of alerts about rows that wait in quarantine.
_QUARANTINE_RULES = ("expectation_rate", "quarantine_growing")
_AUTO_LOADER = "auto loader"
# Flow types of streams in the event log.
_STREAMS = frozenset({"APPEND", "COMPLETE", "UPDATE", "CHANGE"})


def crash_tests(facts: Facts) -> Evidence:
    """The results of tests that let an update crash, for the program text of today."""
    failed = [test for test in facts.crash_tests if not test.passed]
    if failed:
        return missed(f"{failed[0].test} failed for the program text of today", f"pytest {failed[0].test}")
    if not facts.crash_tests:
        text = "no test with pipeline.crash_at has passed for the program text of today"
        return unknown(text, "pytest")
    points = sorted({point for test in facts.crash_tests for point in test.failpoints})
    newest = _day(max(test.at for test in facts.crash_tests))
    tests = counted(len(facts.crash_tests), "crash test")
    return met(f"{tests} passed for the program text of today, at {', '.join(points)}; the newest on {newest}")


def error_actions(facts: Facts) -> Evidence:
    """The action that each ingesting flow has for bad records, and rows that wait in quarantine."""
    rules = {name: rule for name, rule in facts.settings.alerts.rules.items() if name in _QUARANTINE_RULES}
    open_alert = next(iter(findings(facts.alert_facts, rules)), None)
    if open_alert is not None:
        return missed(open_alert.message, open_alert.first_step)
    if not facts.logged.flows:
        return unknown("no update has recorded the flows of the pipeline", "headrace run")
    for flow in facts.logged.flows.values():
        if flow.mode in _STREAMS and not flow.inputs and not flow.external_inputs:
            text = f'the event log does not say what flow "{flow.flow}" reads'
            return unknown(text, "headrace run")
    actions = {flow.flow: _action(facts, flow) for flow in facts.logged.flows.values() if _kinds(flow)}
    for name, action in actions.items():
        if action is None:
            text = f'the program does not show what becomes of bad records of flow "{name}"'
            return unknown(text, f"set {FAILING_ROWS_KEY}: quarantine below configuration in {facts.settings_file}")
    shown = [f'"{name}": {action}' for name, action in actions.items()]
    return met("; ".join(shown) or "no flow reads streams from outside of the pipeline")


def _kinds(flow: FlowDefined) -> set[str]:
    """The kinds of the streams that a flow reads from outside of the pipeline."""
    return {given.kind for given in flow.external_inputs} - {"batch"}


def _action(facts: Facts, flow: FlowDefined) -> str | None:
    """What becomes of bad records of a flow; None if that cannot be seen."""
    own = datasets_with(facts.programs, FAILING_ROWS_KEY, "quarantine")
    if facts.settings.on_failing_rows.is_enabled or any(is_of(flow.dataset, name) for name in own):
        return "dead letters"
    if has_expectations(facts, flow.dataset):
        return "expectations"
    return "rescued data column" if _kinds(flow) == {_AUTO_LOADER} else None


def channels(facts: Facts) -> Evidence:
    """The channels that have accepted a message."""
    names = [channel.name for channel in facts.settings.alerts.alert_channels]
    untested = [name for name in names if name not in facts.channels_reached]
    if untested:
        return unknown(f'no test message has reached channel "{untested[0]}"', f"headrace alerts test {untested[0]}")
    oldest = min((facts.channels_reached[name] for name in names), default=0)
    return met(f"test messages reached {', '.join(names)}, the oldest on {_day(oldest)}")


def documentation(facts: Facts) -> Evidence:
    """Comments of datasets, and the documents of the project."""
    datasets = {name: one for name, one in facts.logged.datasets.items() if one.kind is not Kind.TEMPORARY_VIEW}
    if not datasets:
        return unknown("no update has recorded the datasets of the pipeline", "headrace run")
    silent = sorted(name for name, dataset in datasets.items() if not dataset.comment)
    if silent:
        more = f" and {len(silent) - 1} more" if len(silent) > 1 else ""
        return missed(f'dataset "{silent[0]}"{more} has no comment', 'add comment="..." to its decorator')
    design = facts.documents.get(DESIGN)
    words = set() if design is None else set(re.findall(r"\w+", design.casefold()))
    absent = sorted(name for name in datasets if design is not None and not words.issuperset(_words_of(name)))
    if absent:
        return missed(f'{DESIGN} does not mention dataset "{absent[0]}"', f"describe it in {DESIGN}")
    if not facts.documents.get(RUNBOOK, "").strip():
        return missed(f"the project has no {RUNBOOK}", f"write {RUNBOOK}: who is called, and what to do for each alert")
    shown = f"{DESIGN} mentions each of them, " if design is not None else ""
    return met(f"{counted(len(datasets), 'dataset')} with comments, {shown}{RUNBOOK} is there")


def _words_of(dataset: str) -> list[str]:
    return re.findall(r"\w+", dataset.rpartition(".")[2].casefold())


def _day(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}"
