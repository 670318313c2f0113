"""The plans that lie as files in the folder of a project: which there are, what has changed since, and their code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from headrace.errors import PipelineError, Problems
from headrace.model.location import Location
from headrace.model.names import InvalidName
from headrace.plan.code_diff import ChangedFlow, CodeDiff, code_diff
from headrace.plan.drift import early_differences
from headrace.plan.plan_file import PlanFile
from headrace.project.changes.plan_document import early_facts
from headrace.project.inspection.code_places import code_places
from headrace.project.requests.plan_files import open_plan_files
from headrace.project.update.code_version import code_files
from headrace.settings.settings import Settings
from headrace.storage.code_archives import archived_path, code_archives
from headrace.storage.inventory import flows_of

# Where `headrace plan --out` writes, in most projects.
_FOLDERS = (".", "plans")
_MOST_FILES = 500
_MOST_BYTES = 16 * 1024 * 1024
# The beginning of a plan has its id.
_BEGINNING = 400
_MARK = b'"plan_id"'
# Of a plan with many changes, the code of so many flows is compared.
_MOST_FLOWS = 20


@dataclass(frozen=True)
class SavedPlan:
    """A plan in a file.

    Attributes:
        file: its path from the project's folder.
        plan: the plan.
    """

    file: str
    plan: PlanFile


@dataclass(frozen=True)
class SavedPlans:
    """The plans of a project, the newest first.

    Attributes:
        plans: those that can be read.
        problems: why others cannot be: PLAN.UNREADABLE, PLAN.TAMPERED.
    """

    plans: tuple[SavedPlan, ...] = ()
    problems: tuple[PipelineError, ...] = ()


def saved_plans(settings: Settings) -> SavedPlans:
    """The plans in the folder of the project, and in its folder ``plans``; other files there are left alone.

    And those that were made by request, unless they were rejected.

    Raises:
        OSError: the folder cannot be read.
    """
    plans: list[SavedPlan] = []
    problems: list[PipelineError] = []
    for file in (*_plan_files(settings.root), *open_plan_files(settings.layout)):
        name = file.relative_to(settings.root).as_posix() if file.is_relative_to(settings.root) else str(file)
        try:
            plans.append(SavedPlan(name, _parsed(file, name)))
        except PipelineError as error:
            problems.append(error)
    newest = sorted(plans, key=lambda one: str(one.plan.document.get("made_at", "")), reverse=True)
    return SavedPlans(tuple(newest), tuple(problems))


def comparison(settings: Settings, at: datetime) -> Callable[[PlanFile], tuple[str, ...]]:
    """Says of a plan what of the code, the settings and the packages has changed since it was made, in words.

    To apply it compares tables and flows as well. Of the plan of a swap, only its end is known here. The code is read
    once, by the first call, which raises OSError or Problems if it cannot be.
    """

    @cache
    def now() -> dict[str, Any]:
        return early_facts(settings)

    def changed(plan: PlanFile) -> tuple[str, ...]:
        if plan.stage:
            return (f"the plan expired at {plan.document['expires_at']}",) if at >= plan.expires_at else ()
        return early_differences(plan, now(), at)

    return changed


def code_of_plan(settings: Settings, plan: PlanFile) -> CodeDiff:
    """The code that the datasets of a plan's changes last ran with, against the project's files of now.

    Their definitions are found by their text. The result can contain secrets.

    Raises:
        OSError, PipelineError, Problems: the code or the storage cannot be read.
    """
    archives = code_archives(settings.layout)

    @cache
    def deployed(digest: str) -> dict[str, str] | None:
        files = archives.files(digest) if digest else None
        return None if files is None else _texts(files)

    now = _texts({archived_path(path): content for path, content in code_files(settings).items()})
    changed: list[ChangedFlow] = []
    for name in dict.fromkeys(str(change["dataset"]) for change in plan.document["changes"]):
        place = _place(settings, name)
        with suppress(InvalidName):
            for flow in flows_of(settings.layout, settings.naming, settings.naming.canonical(name)):
                before = deployed(flow.record.code)
                if before != now and len(changed) < _MOST_FLOWS:
                    changed.append(ChangedFlow(flow.name, name, place, before))
    return code_diff(tuple(changed), now)


def _place(settings: Settings, name: str) -> Location:
    """The first place that defines a dataset; one that no definition has, if its text does not say."""
    with suppress(PipelineError, Problems, OSError, ValueError):
        for place in code_places(settings, name):
            return Location(archived_path(place.file), place.line)
    return Location("", 0)


def _texts(files: dict[str, bytes]) -> dict[str, str]:
    return {path: content.decode("utf-8", "replace") for path, content in files.items()}


def _plan_files(root: Path) -> Iterator[Path]:
    for folder in _FOLDERS:
        files = sorted((root / folder).glob("*.json"))
        for file in files[:_MOST_FILES]:
            # Another process may remove it, or somebody else may own it.
            with suppress(OSError):
                if file.is_file() and file.stat().st_size <= _MOST_BYTES and _is_plan(file):
                    yield file


def _is_plan(file: Path) -> bool:
    with file.open("rb") as stream:
        return _MARK in stream.read(_BEGINNING)


def _parsed(file: Path, name: str) -> PlanFile:
    try:
        return PlanFile.parse(file.read_text(encoding="utf-8"), name)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not a text file"
        raise PipelineError("PLAN.UNREADABLE", file=name, reason=reason) from error
