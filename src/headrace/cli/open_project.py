"""What the verbs ask of a project, and the two ways to one: with a session, and without.

``status`` and ``events`` answer without Spark (D13), so nothing here imports it before a verb needs a session.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from headrace.errors import PipelineError
from headrace.events.reader import EventReader
from headrace.events.types import Event
from headrace.graph.select import Selection
from headrace.model.lateness import Lateness
from headrace.model.outcome import FilesBacklog, Outcome
from headrace.model.preview import Preview
from headrace.model.rows import Rows
from headrace.plan.backfills import Backfill, Replayed
from headrace.settings.discover import find_settings
from headrace.settings.load import load_settings
from headrace.settings.settings import Settings
from headrace.storage.health import FlowHealth


class Described(Protocol):
    """A value that says itself to a person and to a program."""

    def describe(self) -> str:
        """Stable text."""

    def to_json(self) -> Any:
        """The same as JSON."""


class DescribedGraph(Described, Protocol):
    """A graph, which can also be drawn."""

    def to_mermaid(self) -> str:
        """A Mermaid flowchart."""


class StoredProject(Protocol):
    """What a project tells of its storage without a session."""

    def quarantine_list(self) -> Sequence[tuple[str, int, Mapping[str, int]]]:
        """Dataset, rows set aside, and how many broke each rule."""

    def lateness(self, name: str, column: str, *, commits: int, passed_over: float) -> Lateness:
        """How late the rows of a table came."""

    def files(self, name: str) -> Rows:
        """The files that Auto Loader has seen for a dataset."""

    def files_to_read(self, name: str) -> Iterable[FilesBacklog]:
        """For each flow of a dataset, the files that Auto Loader has found and that are not read yet."""

    def checkpoints(self) -> tuple[FlowHealth, ...]:
        """Every flow of the storage, and what keeps it from going on."""

    def repair(self, name: str) -> tuple[Path, ...]:
        """Set aside torn files of a flow that it can do without."""

    def quarantine_show(self, name: str, rows: int) -> Rows:
        """Rows that were set aside."""


class OpenProject(StoredProject, Protocol):
    """The part of ``headrace.Project`` that the command line uses; errors are PipelineError and Problems."""

    @property
    def redact(self) -> Callable[[str], str]:
        """Takes the secrets that were handed out so far out of a text."""

    @property
    def continuous(self) -> bool:
        """True when its settings say that an update goes on until it is stopped."""

    def validate(self) -> DescribedGraph:
        """Everything short of writing."""

    def plan(self, selection: Selection) -> Described:
        """What a run would do."""

    def run(
        self,
        refresh: Sequence[str] = (),
        full_refresh: Sequence[str] = (),
        *,
        full_refresh_all: bool = False,
        reset_checkpoint: Sequence[str] = (),
        accept_data_loss: bool = False,
        continuous: bool | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> Outcome:
        """One update."""

    def backfill(self, wanted: Backfill, *, on_event: Callable[[Event], None] | None = None) -> Outcome:
        """An update that loads a range of one stream's input as a batch."""

    def replay(self, wanted: Replayed, *, on_event: Callable[[Event], None] | None = None) -> Outcome:
        """An update that takes rows out of quarantine and through the rules of today."""

    def graph(self) -> DescribedGraph:
        """Datasets, flows and what reads what."""

    def sql(self, query: str, *, write: bool = False, private: bool = False) -> Rows:
        """A query over the pipeline's tables and persisted views."""

    def preview(self, name: str, rows: int = 20) -> Preview:
        """One dataset computed on real input; nothing is written."""

    def explain(self, name: str) -> Described:
        """All there is to know about a dataset."""


class Opener(Protocol):
    """Opens the project of a folder."""

    def __call__(self, directory: Path | None, *, profile: str | None, configuration: Mapping[str, str]) -> OpenProject:
        """The project of the nearest settings file at or above *directory* (default: the working directory)."""


def open_project(directory: Path | None, *, profile: str | None, configuration: Mapping[str, str]) -> OpenProject:
    """The project, with its session to come.

    Raises:
        PipelineError, Problems: the folder or the settings are missing or wrong.
    """
    _check_folder(directory)
    # By name, so that verbs without a session start without Spark.
    project = import_module("headrace.project.open").Project
    opened: OpenProject = project.open(directory, profile=profile, configuration=configuration)
    return opened


@dataclass(frozen=True)
class Place:
    """Where the project is, as the options say; reads settings and the event log without a session."""

    directory: Path | None
    profile: str | None

    def settings(self) -> Settings:
        """The project's settings.

        Raises:
            PipelineError, Problems: they are missing or wrong.
        """
        _check_folder(self.directory)
        return load_settings(find_settings(self.directory or Path.cwd()), profile=self.profile, environ=os.environ)

    def reader(self) -> EventReader:
        """The project's event log."""
        return EventReader(self.settings().layout.events)

    def logs(self) -> Path | None:
        """The folder of log files; None when there is no project, or its storage is not on this machine."""
        try:
            logs = self.settings().layout.logs
        except Exception:  # noqa: BLE001 - asked while another error is reported, which must not be hidden by this one
            return None
        return None if "://" in logs else Path(logs)


def _check_folder(directory: Path | None) -> None:
    if directory is not None and not directory.is_dir():
        raise PipelineError("CLI.NO_FOLDER", folder=directory)
