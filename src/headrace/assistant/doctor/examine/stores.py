"""Checkpoints, state and tables of the storage: what is missing, damaged, older than the rest, shared or repeated."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterator

from headrace.assistant.doctor.checks import checks_by
from headrace.assistant.doctor.edits import removed_setting, settings_edit
from headrace.assistant.doctor.facts import Facts, StoredFlowFacts
from headrace.assistant.doctor.findings import Edit, Finding, found
from headrace.checkpoints.state_formats import format_text
from headrace.errors import PipelineError
from headrace.model.sizes import size_text
from headrace.settings.settings import DEFAULT_STORAGE
from headrace.settings.vendor_confs import ROCKSDB, STATE_PROVIDER


def examine_stores(facts: Facts) -> Iterator[Finding]:
    """Findings about each flow's stores, and about folders that two of them use."""
    for flow in facts.flows:
        if flow.problem is not None:
            yield _problem(flow, flow.problem)
        elif flow.state_damage is not None:
            yield _damaged_state(flow)
        if flow.repeats_from is not None:
            yield _repeated(flow, flow.repeats_from)
    yield from _shared(facts)
    for unread in facts.unread:
        if unread.path:
            evidence = f"{unread.part} cannot be read: {unread.path}: {unread.reason}"
            remedy = "Give this user permission to read the storage, or run the command as the user that runs updates."
            yield found("checkpoint-missing", evidence, remedy=remedy)


def _problem(flow: StoredFlowFacts, problem: PipelineError) -> Finding:
    check = checks_by("errors").get(problem.code)
    evidence = f"{problem.message}: {problem.detail}" if problem.detail else problem.message
    command = flow.ways_out[0] if flow.ways_out else None
    named = check.check_id if check is not None else "checkpoint-torn"
    return found(named, evidence, remedy=problem.hint, flow=flow.name, dataset=flow.dataset, command=command)


def _damaged_state(flow: StoredFlowFacts) -> Finding:
    damage = flow.state_damage
    evidence = "" if damage is None else f"{damage.path}: {damage.reason}"
    command = f"headrace run --full-refresh {shlex.quote(flow.dataset)}"
    return found("state-torn", evidence, flow=flow.name, dataset=flow.dataset, command=command)


def _repeated(flow: StoredFlowFacts, epoch: int) -> Finding:
    evidence = (
        f'flow "{flow.name}" reads its sources again from the position that its query sets, and table '
        f'"{flow.dataset}" kept the rows of epoch {epoch}'
    )
    command = f"headrace run --full-refresh {shlex.quote(flow.dataset)}"
    return found("duplicates", evidence, flow=flow.name, dataset=flow.dataset, command=command)


def _shared(facts: Facts) -> Iterator[Finding]:
    by_folder: defaultdict[str, list[StoredFlowFacts]] = defaultdict(list)
    for flow in facts.flows:
        by_folder[flow.folder].append(flow)
    for folder, flows in by_folder.items():
        if folder and len(flows) > 1:
            names = " and ".join(f'"{flow.name}"' for flow in flows)
            evidence = f"flows {names} have the same folder of checkpoints, {folder}"
            yield found("checkpoint-shared", evidence, flow=flows[0].name, dataset=flows[0].dataset)
    others = _taking_turns(facts.logged.pipelines)
    if len(others) > 1:
        evidence = f"pipelines with the ids {' and '.join(others)} take turns in the storage {facts.settings.storage}"
        edit = settings_edit(
            facts.settings_file,
            facts.settings_text,
            ("storage",),
            f"{DEFAULT_STORAGE}-{facts.settings.name}",
            profile=facts.settings.profile,
        )
        yield found("checkpoint-shared", evidence, edit=edit, command="headrace run" if edit else None)


def _taking_turns(pipelines: tuple[str, ...]) -> tuple[str, ...]:
    """The pipelines of a storage, if one of them came back after another; a renamed pipeline has a new id for good."""
    turns = [one for number, one in enumerate(pipelines) if number == 0 or pipelines[number - 1] != one]
    return tuple(dict.fromkeys(turns)) if len(turns) > len(set(turns)) else ()


def examine_state_format(facts: Facts) -> Iterator[Finding]:
    """Checkpoints whose state is in the memory of Java."""
    for flow in facts.flows:
        provider = flow.state_format.get(STATE_PROVIDER, ROCKSDB)
        if flow.has_state and provider != ROCKSDB:
            evidence = f'the checkpoint of flow "{flow.name}" keeps its state {format_text(flow.state_format)}'
            yield found(
                "state-not-rocksdb",
                evidence,
                flow=flow.name,
                dataset=flow.dataset,
                command=f"headrace run --full-refresh {shlex.quote(flow.dataset)}",
                edit=_without_provider(facts),
            )


def examine_old_parts(facts: Facts) -> Iterator[Finding]:
    """Checkpoints of old epochs, and damaged files that a repair moved away."""
    flows = [flow for flow in facts.flows if flow.old_parts]
    if flows:
        parts, size = sum(flow.old_parts for flow in flows), sum(flow.old_bytes for flow in flows)
        of = f'flow "{flows[0].name}"' if len(flows) == 1 else f"{len(flows)} flows"
        evidence = f"{parts} old part{'' if parts == 1 else 's'} of {of}, {size_text(size)}, unused for 30 days"
        only = flows[0] if len(flows) == 1 else None
        yield found(
            "old-epochs",
            evidence,
            flow=None if only is None else only.name,
            dataset=None if only is None else only.dataset,
            command="headrace checkpoints clean",
        )


def _without_provider(facts: Facts) -> Edit | None:
    for section in ("spark_conf", "configuration"):
        edit = removed_setting(facts.settings_file, facts.settings_text, (section, STATE_PROVIDER))
        if edit is not None:
            return edit
    return None
