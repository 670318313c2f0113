"""What the pipeline runs in: channels of alerts, the disk of its storage, files that nobody needs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from headrace.assistant.doctor.edits import settings_edit
from headrace.assistant.doctor.facts import Facts
from headrace.assistant.doctor.findings import Finding, found
from headrace.model.maintenance import Task
from headrace.model.sizes import size_text
from headrace.plan.maintenance import ActionState
from headrace.settings.settings import DEFAULT_STORAGE

_CHANNEL = '{webhook: "${secret:alerts/webhook}"}'


def examine_monitoring(facts: Facts) -> Iterator[Finding]:
    """A pipeline without a channel for alerts."""
    if facts.settings.alerts.alert_channels:
        return
    edit = settings_edit(
        facts.settings_file,
        facts.settings_text,
        ("alerts", "deliver", "ops"),
        _CHANNEL,
        profile=facts.settings.profile,
    )
    evidence = f"{facts.settings_file} names no channel below alerts.deliver"
    yield found("no-monitoring", evidence, edit=edit, command="headrace alerts test")


def examine_disk(facts: Facts) -> Iterator[Finding]:
    """A storage that does not outlive a restart of the machine."""
    if not facts.machine.volatile:
        return
    edit = None
    if not facts.machine.project_is_volatile:
        edit = settings_edit(
            facts.settings_file, facts.settings_text, ("storage",), DEFAULT_STORAGE, profile=facts.settings.profile
        )
    old, new = facts.settings.storage, str(facts.settings.root / DEFAULT_STORAGE)
    copy = shlex.join(["cp", "-a", f"{old}/.", new])
    evidence = f"the storage {old} {facts.machine.volatile}"
    yield found("checkpoint-volatile", evidence, edit=edit, command=copy if edit else None)


def examine_unused_files(facts: Facts) -> Iterator[Finding]:
    """Tables with files that vacuum would remove."""
    for action in facts.maintenance:
        if action.task is Task.VACUUM and action.state is ActionState.PLANNED:
            size = "" if action.before is None else f" of {size_text(action.before.size_bytes)}"
            evidence = f'table "{action.table}" has {action.reason}{size}'
            yield found("unvacuumed", evidence, dataset=action.table, command="headrace maintain --only vacuum")
