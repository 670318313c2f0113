"""What a storage and an event log show: checkpoints, watermarks, lag and memory."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from headrace.assistant.doctor.evidence.longest_lag import longest_lag_s
from headrace.assistant.doctor.evidence.status import Evidence, Status, counted, met, missed, unknown
from headrace.assistant.doctor.facts import Facts, StoredFlowFacts
from headrace.assistant.doctor.programs import is_of, watermarks
from headrace.assistant.doctor.remedies import seconds_of
from headrace.metrics import catalogue
from headrace.model.lateness import duration
from headrace.model.outcome import UpdateState
from headrace.model.sizes import size_text
from headrace.settings.memory import driver_memory_bytes

_RUN = "headrace run"
REQUIREMENTS = "requirements.yml"
_NO_UPDATE = "no update has run in this storage"
_STREAMS = frozenset({"append", "update", "complete", "merge"})


def checkpoints(facts: Facts) -> Evidence:
    """Each stream has its checkpoint; findings of the doctor have said what is wrong with one."""
    if not facts.flows:
        return unknown(_NO_UPDATE, _RUN)
    streams = [flow for flow in facts.flows if flow.mode in _STREAMS]
    whole = counted(len(streams), "checkpoint") + (" is" if len(streams) == 1 else " are")
    if not streams:
        return met("no flow of the pipeline needs a checkpoint")
    return met(f"{whole} complete and agree with their tables, in {facts.settings.storage}")


def watermark_delays(facts: Facts) -> Evidence:
    """Each stateful flow has a watermark with a delay that is at least the measured lateness."""
    stateful = [flow for flow in facts.flows if flow.has_state]
    if not facts.flows or not facts.logged.flows:
        return unknown(_NO_UPDATE, _RUN)
    if not stateful:
        return met("no flow keeps state")
    results = [_delay_of(facts, flow) for flow in stateful]
    for status in (Status.FAIL, Status.UNKNOWN):
        worst = next((one for one in results if one.status is status), None)
        if worst is not None:
            return worst
    return met("; ".join(one.text for one in results))


def _delay_of(facts: Facts, flow: StoredFlowFacts) -> Evidence:
    own = [one for one in watermarks(facts.programs) if is_of(flow.dataset, one.dataset)]
    defined = facts.logged.flows.get(flow.name)
    inputs = () if defined is None else defined.inputs
    explain = f"headrace explain {shlex.quote(flow.dataset)}"
    if not own:
        return unknown(f'the program does not show the watermark of flow "{flow.name}", which keeps state', explain)
    for watermark in own:
        measured = [facts.lateness_s.get((name, watermark.column)) for name in inputs]
        known = [seconds for seconds in measured if seconds is not None]
        if not known:
            table = shlex.quote(inputs[0]) if inputs else "TABLE"
            reasons = (facts.not_measured.get((name, watermark.column)) for name in inputs)
            why = next((f": {reason}" for reason in reasons if reason), "")
            text = f'how late the rows of flow "{flow.name}" arrive by {watermark.column} is not measured{why}'
            return unknown(text, f"headrace lateness {table} {shlex.quote(watermark.column)}")
        delay_s = seconds_of(watermark.delay)
        if delay_s is None:
            text = f'the watermark of flow "{flow.name}" allows {watermark.delay}, and rows are up to '
            text += f"{duration(max(known))} late"
            return unknown(text, f"compare the two at {watermark.file.name}:{watermark.call.lineno}")
        if delay_s < max(known):
            late = f"rows arrive up to {duration(max(known))} late"
            text = f'the watermark of flow "{flow.name}" allows {watermark.delay}, and {late}'
            return missed(text, f'change {watermark.file.name}:{watermark.call.lineno} to "{duration(max(known))}"')
    return met(f'flow "{flow.name}": a delay of {own[0].delay} keeps the rows that were measured')


def lag(facts: Facts) -> Evidence:
    """The lag of each dataset, against its latency, or what the last update left unread."""
    if not facts.logged.state:
        return unknown(_NO_UPDATE, _RUN)
    if facts.latencies_s:
        return _against_latency(facts)
    if facts.logged.state == UpdateState.RUNNING.value:
        limit = facts.settings.alerts.rules.get("lag_high")
        seconds = facts.samples.of(catalogue.LAG_SECONDS)
        if limit is None or not seconds:
            return unknown("no flow that runs has reported its lag in seconds", "headrace status")
        return met(f"the greatest lag is {max(seconds.values()):.0f} s, alerts allow {limit.threshold:.0f} s")
    return _left_unread(facts)


def _against_latency(facts: Facts) -> Evidence:
    limits = sorted(_limits(facts))
    known = {name: lag_s for (name,), lag_s in facts.samples.of(catalogue.LOCAL_LAG).items()}
    known |= {name: lag_s for (name,), lag_s in facts.samples.of(catalogue.GLOBAL_LAG).items()}
    for dataset, limit_s in limits:
        if known.get(dataset, 0) > limit_s:
            behind = f'"{dataset}" is {duration(round(known[dataset]))} behind'
            text = f"{behind}, {REQUIREMENTS} allows {duration(limit_s)}"
            return missed(text, f"{_RUN} --refresh {shlex.quote(dataset)}")
    at_most = {dataset: longest_lag_s(facts, dataset) for dataset, _ in limits}
    for dataset, limit_s in limits:
        most_s = at_most[dataset]
        if most_s is None or most_s > limit_s:
            since = "was never reported" if most_s is None else f"was last known {duration(round(most_s))} ago"
            return unknown(f'whether the sources of "{dataset}" have something new {since}', _RUN)
    greatest = duration(round(max((most_s or 0 for most_s in at_most.values()), default=0)))
    return met(f"no dataset is more than {greatest} behind its sources, within the latency of {REQUIREMENTS}")


def _limits(facts: Facts) -> Iterator[tuple[str, float]]:
    """The datasets that have a latency: all but views, unless requirements name them."""
    general = facts.latencies_s.get("")
    for name, dataset in facts.logged.datasets.items():
        own = next((limit for known, limit in facts.latencies_s.items() if known and is_of(name, known)), general)
        if own is not None and dataset.kind.stored:
            yield name, own


def _left_unread(facts: Facts) -> Evidence:
    """What was unread when the last update ended: a triggered pipeline is not behind between two updates."""
    unread = {flow: samples[-1].unread for flow, samples in facts.logged.backlogs.items()}
    for flow, sources in unread.items():
        for (source, unit), amount in sources.items():
            if amount > 0:
                return missed(f'flow "{flow}" left {amount:,.0f} {unit} of {source} unread', _RUN)
    if facts.logged.state != UpdateState.COMPLETED.value:
        return unknown(f"the last update is {facts.logged.state}", _RUN)
    if not unread:
        return unknown(f"no stream has reported its lag, and {REQUIREMENTS} names no latency", "headrace metrics")
    return met(f"{counted(len(unread), 'stream')} had read everything when the last update ended")


def memory(facts: Facts) -> Evidence:
    """The memory that state uses, after an update that ended."""
    if facts.logged.state not in (UpdateState.COMPLETED.value, UpdateState.RUNNING.value):
        state = facts.logged.state
        return unknown(f"the last update is {state}" if state else _NO_UPDATE, _RUN)
    used = sum(facts.samples.of(catalogue.STATE_BYTES).values())
    stateful = [flow for flow in facts.flows if flow.has_state]
    if stateful and not used:
        return unknown("no stateful flow has reported the size of its state", "headrace metrics")
    state_text = f"state uses {size_text(used)}" if stateful else "no flow keeps state"
    return met(
        f"{state_text}, the driver has {size_text(driver_memory_bytes(facts.settings))}; the last update did not run "
        "out of memory"
    )
