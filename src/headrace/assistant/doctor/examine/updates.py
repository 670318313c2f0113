"""What the latest updates reported: flows that failed or are retried, and warnings."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from headrace.assistant.doctor.checks import Check, Severity, checks, checks_by
from headrace.assistant.doctor.facts import Facts, Failure, PastWarning
from headrace.assistant.doctor.findings import Finding, found
from headrace.errors import ErrorKind, conditions, spark_condition
from headrace.events.levels import Level
from headrace.metrics import catalogue
from headrace.model.alert_rules import rules
from headrace.model.names import quoted
from headrace.model.outcome import FlowState

_OUT_OF_MEMORY = "OutOfMemoryError"
# Lost records are gone, whatever the level of the warning. A table that each batch replaces may be what is wanted.
_WARNING_SEVERITIES = {"KAFKA.OFFSETS_LOST": Severity.ERROR, "FLOW.COMPLETE_MODE": Severity.ADVICE}
_RETRIED = frozenset({FlowState.RETRYING.value, FlowState.STARTING.value, FlowState.RUNNING.value})
_RESCUED = "SELECT _rescued_data FROM {dataset} WHERE _rescued_data IS NOT NULL LIMIT 5"
# Waiting batches are counted in the storage, which also knows when they were delivered.
_OF_STORAGE = frozenset({"SINK.BEHIND"})


def examine_failures(facts: Facts) -> Iterator[Finding]:
    """Flows whose newest state is a failure, and flows that are being retried."""
    states = {flow: state for flow, _, state in facts.samples.of(catalogue.FLOW_STATE)}
    for failure in facts.logged.failures.values():
        state = states.get(failure.flow)
        failed = failure.is_final and state == FlowState.FAILED.value
        retried = not failure.is_final and state in _RETRIED
        if (failed or retried) and not _is_decided_by_storage(facts, failure):
            yield _failure(failure, retried=retried)


def _is_decided_by_storage(facts: Facts, failure: Failure) -> bool:
    """Whether the storage itself shows the problem, or that it was repaired since."""
    stored = facts.stored.get(failure.flow)
    code = str(failure.error.get("code", ""))
    return stored is not None and code in _STORED_PROBLEMS


_STORED_PROBLEMS = frozenset(
    code
    for name in ("checkpoint-missing", "checkpoint-torn", "checkpoint-behind-table", "data-lost")
    for code in checks()[name].errors
    if code.startswith("FLOW.")
)


def _failure(failure: Failure, *, retried: bool) -> Finding:
    error, flow, dataset = failure.error, failure.flow, failure.dataset
    code = str(error.get("code", ""))
    check = check_of_error(error)
    detail = str(error.get("detail") or "").strip().splitlines()
    evidence = f"{error.get('message', 'it failed')} [{code}]" + (f": {detail[0]}" if detail else "")
    template = check.errors.get(code, "headrace run")
    # While the update runs, no other one can start.
    words = {"flow": shlex.quote(flow), "dataset": shlex.quote(dataset)}
    # Some errors know the command better than their code does, but not those in logs of older versions.
    own = (error.get("params") or {}).get("command") or f"headrace run --full-refresh {words['dataset']}"
    command = "" if retried else template.format(command=own, **words)
    return found(
        check.check_id,
        f"{'retried: ' if retried else ''}{evidence}",
        severity=Severity.WARNING if retried else Severity.ERROR,
        remedy=str(error.get("hint") or check.remedy),
        flow=flow,
        dataset=dataset,
        command=command or None,
    )


def check_of_error(error: Mapping[str, Any]) -> Check:
    """The check that the JSON of a flow's error belongs to; errors that no other check explains are unhandled ones."""
    code = str(error.get("code", ""))
    known = checks_by("errors").get(code)
    if known is not None:
        return known
    if _OUT_OF_MEMORY in json.dumps(error, default=str):
        return checks()["memory-tight"]
    condition = conditions().get(code)
    spark = spark_condition(str((error.get("params") or {}).get("condition") or ""))
    if spark.means is not None and spark.means in checks_by("errors"):
        return checks_by("errors")[spark.means]
    if "SCHEMA" in str((error.get("params") or {}).get("condition") or ""):
        return checks()["schema-mismatch"]
    if ErrorKind.SOURCE in (spark.kind, None if condition is None else condition.kind) or code.startswith("JDBC."):
        return checks()["source-unavailable"]
    return checks()["sink-behind" if code.startswith("SINK.HTTP") else "errors-unhandled"]


def examine_warnings(facts: Facts) -> Iterator[Finding]:
    """Warnings of the latest update, and those of a day about rows that were lost and not read again since."""
    by_code = checks_by("warnings")
    for past in reversed(facts.logged.warnings):
        event = past.event
        check = by_code.get(event.code)
        if check is None or event.code in _OF_STORAGE or _is_repaired(facts, past):
            continue
        yield found(
            check.check_id,
            event.message,
            severity=_WARNING_SEVERITIES.get(
                event.code, Severity.ERROR if event.level is Level.ERROR else Severity.WARNING
            ),
            flow=event.flow,
            dataset=event.dataset,
        )


def _is_repaired(facts: Facts, past: PastWarning) -> bool:
    """Whether the table was cleared later, and its sources read again."""
    return facts.logged.cleared.get(past.event.dataset or "", 0) > past.at


def examine_rescued_rows(facts: Facts) -> Iterator[Finding]:
    """Tables of which a great share of rows has rescued data; the limits are those of failing expectations."""
    rule = rules()["expectation_rate"]
    rows = facts.samples.of(catalogue.ROWS)
    for (flow, dataset, fate), rescued in rows.items():
        written = rows.get((flow, dataset, "written"), 0)
        if fate == "rescued" and written >= rule.least_rows and rescued / written > rule.threshold:
            query = _RESCUED.format(dataset=quoted(*dataset.split(".")))
            evidence = f'{rescued / written:.1%} of the rows of "{dataset}" have values that its schema cannot hold'
            command = f"headrace sql {shlex.quote(query)}"
            yield found("schema-mismatch", evidence, flow=flow, dataset=dataset, command=command)


def examine_table_schemas(facts: Facts) -> Iterator[Finding]:
    """Tables whose schema somebody has changed, so that they no longer accept the rows of their queries."""
    for conflict in facts.conflicts:
        change, dataset = conflict.change, conflict.dataset
        lacking = [f"has no column {field} of type {field.after}" for field in change.added]
        others = [f"has {field} as {field.before}, not {field.after}" for field in (*change.refused, *change.widened)]
        differs = "; it ".join([*lacking, *others])
        # The next update adds columns and widens types by itself.
        command = f"headrace run --full-refresh {shlex.quote(dataset)}" if change.refused else "headrace run"
        evidence = f'table "{dataset}" is not as the latest update wrote it: it {differs}'
        yield found("schema-mismatch", evidence, flow=facts.flow_into(dataset), dataset=dataset, command=command)


def examine_sinks(facts: Facts) -> Iterator[Finding]:
    """Sinks for which batches wait."""
    rows = facts.samples.of(catalogue.SINK_WAITING_ROWS)
    for (flow, sink), batches in facts.samples.of(catalogue.SINK_WAITING_BATCHES).items():
        if batches:
            waiting = f"{batches:.0f} batch{'' if batches == 1 else 'es'} with {rows.get((flow, sink), 0):.0f} rows"
            evidence = f'{waiting} wait for sink "{sink}" of flow "{flow}"'
            yield found("sink-behind", evidence, flow=flow, dataset=facts.dataset_of(flow), command="headrace run")
