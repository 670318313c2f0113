"""How streams progress: backlogs that grow, batches that take long, state that grows, memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median

from headrace.assistant.doctor.checks import Severity
from headrace.assistant.doctor.facts import Backlog, Facts
from headrace.assistant.doctor.findings import Finding, found
from headrace.metrics import catalogue
from headrace.model.outcome import ACTIVE_STATES, UpdateState
from headrace.model.sizes import size_text
from headrace.model.stream_progress import OperatorProgress, StreamBatches
from headrace.settings.memory import driver_memory_bytes
from headrace.settings.vendor_confs import ROCKSDB, STATE_PROVIDER

_ACTIVE = frozenset(state.value for state in ACTIVE_STATES)
_REPORTS = 3
# A backlog that grows has grown by this factor, within this time, to so many of its units.
_GROWN, _GROWN_WITHIN_S, _LEAST_UNREAD = 2, 60, 10
# A slow batch takes so many times the usual time, and so many milliseconds.
_SLOWER, _LEAST_SLOW_MS, _USUAL_REPORTS = 3, 10_000, 5
# State that grows has grown by this factor over so many reports, to so many rows or bytes.
_STATE_GROWN, _STATE_REPORTS = 2, 5
_LEAST_STATE_ROWS, _LEAST_STATE_BYTES = 100_000, 100_000_000
_TIGHT_SHARE = 0.5


def examine_backlogs(facts: Facts) -> Iterator[Finding]:
    """Flows that run, and whose backlog has grown in each of the last reports."""
    for flow in _active(facts):
        samples = facts.logged.backlogs.get(flow, ())[-_REPORTS:]
        for source, unit in samples[-1].unread if len(samples) == _REPORTS else ():
            amounts = [sample.unread.get((source, unit), 0.0) for sample in samples]
            if _grows(samples, amounts):
                shown = " to ".join(f"{amount:,.0f}" for amount in amounts)
                evidence = f'flow "{flow}" falls behind {source}: unread {unit} rose from {shown}{_cause(facts, flow)}'
                yield found("backlog-grows", evidence, flow=flow, dataset=facts.dataset_of(flow))


def _grows(samples: Sequence[Backlog], amounts: Sequence[float]) -> bool:
    rises = all(before < after for before, after in pairwise(amounts))
    is_long = samples[-1].at - samples[0].at >= _GROWN_WITHIN_S
    return rises and is_long and amounts[-1] >= max(_GROWN * amounts[0], _LEAST_UNREAD)


def _cause(facts: Facts, flow: str) -> str:
    cause = bottleneck(facts, flow)
    return f"; most of the time goes to: {cause}" if cause is not None else ""


def bottleneck(facts: Facts, flow: str) -> str | None:
    """What most of a running stream's time goes to, in a word or two; None if unknown."""
    causes = [cause for name, cause in facts.samples.of(catalogue.BOTTLENECK) if name == flow]
    return causes[0] if causes else None


def examine_batches(facts: Facts) -> Iterator[Finding]:
    """Batches that take longer than the interval of their trigger, or much longer than before."""
    for flow, reports in facts.logged.batches.items():
        newest = reports[-1]
        taken_ms = newest.duration_ms / newest.batches
        interval_s = facts.samples.of(catalogue.TRIGGER_INTERVAL).get((flow,), 0)
        earlier = [report.duration_ms / report.batches for report in reports[:-1]]
        usual_ms = median(earlier) if len(earlier) >= _USUAL_REPORTS else 0
        than = ""
        # The first batches also take the time in which Java becomes fast.
        recent = [report.duration_ms / report.batches for report in reports[-_REPORTS:]]
        if len(recent) == _REPORTS and 0 < interval_s * 1000 < min(recent):
            than = f"its trigger fires every {interval_s:g} s"
        elif usual_ms and taken_ms > max(_SLOWER * usual_ms, _LEAST_SLOW_MS):
            than = f"before they took {usual_ms / 1000:.1f} s"
        if than:
            evidence = f'batches of flow "{flow}" take {taken_ms / 1000:.1f} s, {than}{_phase(newest)}'
            yield found("batch-slow", evidence, flow=flow, dataset=facts.dataset_of(flow))


def _phase(report: StreamBatches) -> str:
    return f"; slowest phase: {report.slowest_phase}" if report.slowest_phase else ""


def examine_state_growth(facts: Facts) -> Iterator[Finding]:
    """State whose rows, or bytes if Spark counts no rows, grow from report to report while nothing is removed."""
    for flow, reports in facts.logged.batches.items():
        recent = reports[-_STATE_REPORTS:]
        for number in range(len(recent[-1].operators)) if len(recent) == _STATE_REPORTS else ():
            same = [report.operators[number] for report in recent if number < len(report.operators)]
            evidence = _growth(same)
            if evidence and not sum(one.rows_removed for one in same):
                text = f'the {same[-1].kind} of flow "{flow}" keeps {evidence}, and removed no rows'
                yield found("state-grows", text, flow=flow, dataset=facts.dataset_of(flow))


def _growth(reports: Sequence[OperatorProgress]) -> str:
    """How the state of an operator has grown over some reports; empty if it has not."""
    rows = [report.rows_total for report in reports if report.rows_total is not None]
    if len(rows) == len(reports):
        return f"{rows[-1]:,} rows, {rows[0]:,} some reports ago" if _has_grown(rows, _LEAST_STATE_ROWS) else ""
    sizes = [report.memory_bytes for report in reports]
    then, now = size_text(sizes[0]), size_text(sizes[-1])
    return f"{now} of state, {then} some reports ago" if _has_grown(sizes, _LEAST_STATE_BYTES) else ""


def _has_grown(amounts: Sequence[int], least: int) -> bool:
    rises = all(before < after for before, after in pairwise(amounts))
    return rises and amounts[-1] >= max(_STATE_GROWN * amounts[0], least)


def examine_memory(facts: Facts) -> Iterator[Finding]:
    """Java that ran out of memory, an update whose process is gone, and state that needs most of the memory."""
    memory = driver_memory_bytes(facts.settings)
    then = facts.logged.config.get("driver_memory_bytes")
    # More memory was given since.
    is_answered = isinstance(then, int) and then < memory
    is_lost = (UpdateState.LOST.value,) in facts.samples.of(catalogue.UPDATE_STATE)
    if facts.machine.out_of_memory and not is_answered:
        gone = "; the process of the update is gone" if is_lost else ""
        evidence = f"spark.log: {facts.machine.out_of_memory}, with {size_text(memory)} for the driver{gone}"
        yield found("memory-tight", evidence, severity=Severity.ERROR, command="headrace run")
    elif is_lost and not is_answered:
        rule = facts.settings.alerts.rules.get("update_lost")
        if rule is not None:
            remedy, command = rule.runbook, rule.first_step
            yield found("memory-tight", rule.message, severity=Severity.ERROR, remedy=remedy, command=command)
    yield from _large_state(facts, memory)


def _large_state(facts: Facts, memory: int) -> Iterator[Finding]:
    """State in Java's memory that needs much of it, or RocksDB's that needs much of the rest of the machine."""
    sizes: dict[str, float] = {}
    for (flow, _), size in facts.samples.of(catalogue.STATE_BYTES).items():
        sizes[flow] = sizes.get(flow, 0) + size
    for flow, size in sizes.items():
        stored = facts.stored.get(flow)
        in_java = stored is not None and stored.state_format.get(STATE_PROVIDER, ROCKSDB) != ROCKSDB
        rest = memory if in_java else max(facts.machine.memory_bytes - memory, 0)
        if rest and size > _TIGHT_SHARE * rest:
            of = "the driver's" if in_java else "the machine's other"
            evidence = f'the state of flow "{flow}" uses {size_text(size)} of {of} {size_text(rest)} of memory'
            yield found("memory-tight", evidence, flow=flow, dataset=facts.dataset_of(flow), command="headrace run")


def _active(facts: Facts) -> Mapping[str, str]:
    return {flow: dataset for flow, dataset, state in facts.samples.of(catalogue.FLOW_STATE) if state in _ACTIVE}
