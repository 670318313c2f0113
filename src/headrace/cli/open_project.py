"""The project interface that the verbs use, with a session and without.

``status`` and ``events`` work without Spark (D13), so nothing here imports it before a verb needs a session.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from headrace.alerts.alert import Alert
from headrace.alerts.outbox import Answer, Delivery, Letter
from headrace.errors import PipelineError
from headrace.events.reader import EventReader
from headrace.events.types import Event
from headrace.graph.select import Selection
from headrace.metrics.samples import Samples
from headrace.model.erasure import Erasure, ErasureRequest
from headrace.model.lateness import Lateness
from headrace.model.maintenance import MaintenanceRequest
from headrace.model.outcome import FilesBacklog, Outcome
from headrace.model.preview import Preview
from headrace.model.rows import Rows
from headrace.model.state_rows import StateRequest, StateRows
from headrace.plan.backfills import BackfillRequest, ReplayRequest
from headrace.plan.maintenance import Action
from headrace.plan.steps import Plan
from headrace.project.clean import Cleaned, CleanRequest
from headrace.project.inspection.flow_checkpoint import FlowCheckpoint
from headrace.settings.discover import find_settings
from headrace.settings.load import load_settings
from headrace.settings.settings import Settings
from headrace.storage.health import FlowHealth


class Described(Protocol):
    """A value that can be shown as text and as JSON."""

    def describe(self) -> str:
        """Stable text."""

    def to_json(self) -> Any:
        """The same as JSON."""


class DescribedGraph(Described, Protocol):
    """A graph, which can also be shown as Mermaid."""

    def to_mermaid(self) -> str:
        """A Mermaid flowchart."""


class Alerts(Protocol):
    """The alerts of a pipeline."""

    def known(self) -> tuple[Alert, ...]:
        """The alerts of the last check."""

    def check(self, samples: Samples) -> tuple[Alert, ...]:
        """Check every rule, and return all alerts."""

    def deliver(self) -> tuple[Delivery, ...]:
        """Send the messages that are due."""

    def undelivered(self) -> list[Letter]:
        """The messages that no channel has accepted yet."""

    def test(self, name: str | None) -> tuple[tuple[str, Answer], ...]:
        """Send a test message over one channel or all."""

    def prometheus_rules(self) -> str:
        """The rules as a file for Prometheus."""

    def acknowledge(self, key: str, user: str) -> Alert:
        """Record who knows of an alert."""

    def silence(self, key: str, seconds: float) -> Alert:
        """Let an alert need no attention for a time."""


class Erasures(Protocol):
    """Finds and erases rows of a pipeline's storage."""

    def find(self, request: ErasureRequest) -> Erasure:
        """What would be erased; nothing is written."""

    def erase(self, request: ErasureRequest) -> Erasure:
        """Erase rows from every place of the storage."""


class Checkpoints(Protocol):
    """The checkpoints of a pipeline."""

    def health(self) -> tuple[FlowHealth, ...]:
        """Every flow of the storage, and the problem that stops it, if there is one."""

    def show(self, name: str) -> FlowCheckpoint:
        """The checkpoint of a flow."""

    def state(self, request: StateRequest, session: Callable[[], Any]) -> StateRows:
        """The rows of a flow's state."""

    def repair(self, name: str) -> tuple[Path, ...]:
        """Move away damaged files that a flow does not need."""

    def clean(self, request: CleanRequest, plan: Callable[[], Plan]) -> Cleaned:
        """Remove checkpoints of old epochs, and what left the code."""


class StoredProject(Protocol):
    """The part of a project that reads its storage without a session."""

    def metrics(self, *, tables: bool = True) -> Samples:
        """The current metrics of the pipeline."""

    def alerts(self) -> Alerts:
        """The alerts of the pipeline."""

    def quarantine_list(self) -> Sequence[tuple[str, int, Mapping[str, int]]]:
        """Per dataset: its name, its quarantined rows, and the number of rows per violated rule."""

    def lateness(self, name: str, column: str, *, commits: int, dropped_share: float) -> Lateness:
        """How late the rows of a table arrived."""

    def files(self, name: str) -> Rows:
        """The files that Auto Loader has seen for a dataset."""

    def files_to_read(self, name: str) -> Iterable[FilesBacklog]:
        """Per flow of a dataset, the files that Auto Loader has found and not read yet."""

    def checkpoints(self) -> Checkpoints:
        """The checkpoints of the pipeline."""

    def quarantine_show(self, name: str, rows: int) -> Rows:
        """Quarantined rows."""

    def maintain(self, request: MaintenanceRequest) -> Sequence[Action]:
        """Maintain the storage; returns what was done, skipped or planned."""


class OpenProject(StoredProject, Protocol):
    """The part of ``headrace.Project`` that the command line uses; errors are PipelineError and Problems."""

    @property
    def redact(self) -> Callable[[str], str]:
        """Removes the secrets resolved so far from a text."""

    @property
    def erasures(self) -> Erasures:
        """Finds and erases rows."""

    @property
    def continuous(self) -> bool:
        """True if the settings make an update run until it is stopped."""

    def validate(self) -> DescribedGraph:
        """Everything short of writing."""

    def plan(self, selection: Selection) -> Plan:
        """The plan of a run."""

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

    def backfill(self, wanted: BackfillRequest, *, on_event: Callable[[Event], None] | None = None) -> Outcome:
        """An update that runs one stream's query as a batch over a range of its input."""

    def replay(self, wanted: ReplayRequest, *, on_event: Callable[[Event], None] | None = None) -> Outcome:
        """An update that checks quarantined rows again with the current rules."""

    def graph(self) -> DescribedGraph:
        """The datasets, the flows and their inputs."""

    def sql(self, query: str, *, write: bool = False, private: bool = False, also: Sequence[str] = ()) -> Rows:
        """A query over the pipeline's tables and persisted views."""

    def session(self) -> Any:
        """The Spark session of the project."""

    def preview(self, name: str, rows: int = 20) -> Preview:
        """One dataset computed on real input; nothing is written."""

    def explain(self, name: str) -> Described:
        """The explanation of a dataset."""


class Opener(Protocol):
    """Opens the project of a folder."""

    def __call__(self, directory: Path | None, *, profile: str | None, configuration: Mapping[str, str]) -> OpenProject:
        """The project of the nearest settings file at or above *directory* (default: the working directory)."""


def open_project(directory: Path | None, *, profile: str | None, configuration: Mapping[str, str]) -> OpenProject:
    """The project; its session opens when a verb needs it.

    Raises:
        PipelineError, Problems: the folder or the settings are missing or wrong.
    """
    _check_folder(directory)
    # Imported by name, so that verbs without a session start without Spark.
    project = import_module("headrace.project.open").Project
    opened: OpenProject = project.open(directory, profile=profile, configuration=configuration)
    return opened


@dataclass(frozen=True)
class ProjectLocation:
    """The location of the project, as the options name it; reads settings and the event log without a session."""

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
        """The folder of log files; None if there is no project, or its storage is not on this machine."""
        try:
            logs = self.settings().layout.logs
        except Exception:  # noqa: BLE001 - called while another error is reported, which this one must not hide
            return None
        return None if "://" in logs else Path(logs)


def _check_folder(directory: Path | None) -> None:
    if directory is not None and not directory.is_dir():
        raise PipelineError("CLI.NO_FOLDER", folder=directory)
