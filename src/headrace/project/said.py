"""What an update says of its plan before it begins, so that the event log keeps it."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.events.types import Warned
from headrace.plan.steps import Plan
from headrace.plan.triggers import partial_inputs


def plan_said(plan: Plan) -> Iterator[Warned]:
    """Warnings: what is renamed, what is inactive, what tables are cleared, and whose progress is dropped."""
    for rename in plan.renames:
        message = f'{rename.what.value} "{rename.old}" is renamed to "{rename.new}" with all that it has'
        yield Warned(f"{rename.what.name}.RENAMED", message, None, str(rename.dataset))
    for left in plan.inactive:
        yield Warned(left.code, left.message, left.flow, left.dataset)
    for loss in plan.losses:
        read = "".join(f"; {source.describe()}" for source in loss.sources)
        yield Warned(
            "TABLE.CLEARED", f'full refresh of "{loss.dataset}" clears {loss.cleared()}{read}', None, str(loss.dataset)
        )
    for step, name in partial_inputs(plan) if plan.continuous else ():
        message = f'flow "{step.flow.name}" takes what "{name}" holds when it starts, and ends; "{name}" goes on'
        yield Warned("FLOW.PARTIAL_INPUT", message, step.flow.name, str(step.flow.target))
    for step in plan.flows:
        if step.restart is not None:
            read = "; ".join(source.describe() for source in step.restart.sources)
            message = f'progress of flow "{step.flow.name}" is dropped, it reads again {read}'
            yield Warned("FLOW.RESET", message, step.flow.name, str(step.flow.target))
