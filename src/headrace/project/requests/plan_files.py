"""Plans that were made by request, as files of this machine: found by their ids, and rejected."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.errors import PipelineError
from headrace.plan.plan_file import PlanFile
from headrace.settings.storage import MonitoringFile, StorageLayout

_REJECTED = ".rejected.json"
# Plans expire after days; nobody needs more of them.
_MOST_FILES = 100


@dataclass(frozen=True)
class SavedPlan:
    """A plan.

    Attributes:
        file: where it is.
        plan: the plan.
        is_rejected: it can no longer be applied.
    """

    file: Path
    plan: PlanFile
    is_rejected: bool

    def to_json(self) -> dict[str, Any]:
        """The plan without its steps."""
        return {
            "plan_id": self.plan.plan_id,
            "digest": self.plan.digest,
            "made_by": self.plan.made_by or None,
            "expires_at": self.plan.expires_at.isoformat(),
            "classes": sorted(one.value for one in self.plan.classes),
            "approvals": [{"by": one.by, "at": one.at, "note": one.note} for one in self.plan.approvals],
            "is_rejected": self.is_rejected,
        }


def plan_folder(layout: StorageLayout) -> Path:
    """The folder of the plans."""
    return Path(layout.monitoring(MonitoringFile.PLANS))


def new_plan_file(layout: StorageLayout, name: str) -> Path:
    """Where the plan of a request is written; makes room for it."""
    folder = plan_folder(layout)
    folder.mkdir(parents=True, exist_ok=True)
    files = sorted(folder.glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
    for file in files[: max(0, len(files) - _MOST_FILES + 1)]:
        file.unlink(missing_ok=True)
    return folder / f"{name}.json"


def open_plan_files(layout: StorageLayout) -> list[Path]:
    """The files of the plans that were not rejected."""
    return [file for file in plan_folder(layout).glob("*.json") if not file.name.endswith(_REJECTED)]


def saved_plans(layout: StorageLayout) -> list[SavedPlan]:
    """The plans, the newest first. Files that are no plans are left out."""
    return sorted(_saved(plan_folder(layout)), key=lambda one: one.plan.expires_at, reverse=True)


def find_plan(layout: StorageLayout, plan_id: str) -> SavedPlan:
    """The plan with an id, which can be approved and applied.

    Raises:
        PipelineError: SERVE.NO_PLAN; SERVE.PLAN_REJECTED.
    """
    found = next((one for one in _saved(plan_folder(layout)) if one.plan.plan_id == plan_id), None)
    if found is None:
        raise PipelineError("SERVE.NO_PLAN", plan=plan_id)
    if found.is_rejected:
        raise PipelineError("SERVE.PLAN_REJECTED", plan=plan_id)
    return found


def reject_plan(layout: StorageLayout, plan_id: str) -> None:
    """Reject a plan: it can no longer be approved or applied by request.

    Raises:
        PipelineError: SERVE.NO_PLAN; SERVE.PLAN_REJECTED.
        OSError: the file cannot be renamed.
    """
    found = find_plan(layout, plan_id)
    found.file.rename(found.file.with_name(found.file.name.removesuffix(".json") + _REJECTED))


def _saved(folder: Path) -> Iterator[SavedPlan]:
    for file in folder.glob("*.json"):
        # It may be rejected or removed meanwhile.
        with suppress(PipelineError, OSError, ValueError):
            plan = PlanFile.parse(file.read_text(encoding="utf-8"), str(file))
            yield SavedPlan(file, plan, file.name.endswith(_REJECTED))
