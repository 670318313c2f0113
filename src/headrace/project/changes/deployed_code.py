"""The code that the changed flows of a plan last ran with, against the project's files of now."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from headrace.graph.resolved_flows import ResolvedFlow
from headrace.plan.code_diff import ChangedFlow, CodeDiff, code_diff
from headrace.plan.steps import Decision, Plan
from headrace.project.update.code_version import code_files
from headrace.settings.settings import Settings
from headrace.storage.change_detection import StoredState
from headrace.storage.code_archives import archived_path, code_archives


def diff_of_plan(
    plan: Plan, settings: Settings, state: StoredState, has_new_code: Callable[[ResolvedFlow], bool]
) -> CodeDiff:
    """What changed in the code of each flow of a plan that is deployed with other code.

    Args:
        plan: the plan.
        settings: the pipeline's.
        state: the records of the flows.
        has_new_code: tells whether a flow ran before, with other code.
    """
    archives = code_archives(settings.layout)

    @cache
    def deployed(digest: str) -> dict[str, str] | None:
        files = archives.files(digest) if digest else None
        return None if files is None else _texts(files)

    changed = []
    for step in plan.flows:
        if step.decision is not Decision.EXCLUDE and has_new_code(step.flow):
            record = state.record(step.flow)
            known = deployed(record.code) if record is not None else None
            changed.append(ChangedFlow(step.flow.name, str(step.flow.target), step.flow.flow.location, known))
    now = {archived_path(path): content for path, content in code_files(settings).items()} if changed else {}
    return code_diff(tuple(changed), _texts(now))


def _texts(files: dict[str, bytes]) -> dict[str, str]:
    return {path: content.decode("utf-8", "replace") for path, content in files.items()}
