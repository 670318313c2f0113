"""What the doctor looks at: values that were read from a storage, its settings and its program text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from headrace.alerts.conditions import Facts as AlertFacts
from headrace.alerts.history import History
from headrace.assistant.doctor.notebook_code import NotebookCode, notebook_code
from headrace.checkpoints.state_damage import StateDamage
from headrace.errors import PipelineError
from headrace.events.types import DatasetDefined, FlowDefined, SinkDefined, Warned
from headrace.lint.lint_files import Finding as Violation
from headrace.metrics.samples import Samples
from headrace.model.location import Location
from headrace.model.stream_progress import StreamBatches
from headrace.model.type_changes import SchemaChange
from headrace.plan.maintenance import Action
from headrace.settings.settings import Settings


@dataclass(frozen=True)
class StoredFlowFacts:
    """What the storage has of a flow.

    Attributes:
        name: of the flow.
        dataset: its target.
        mode: how it runs; empty if unknown.
        folder: of its checkpoints, without links.
        problem: what keeps it from continuing; None if nothing does.
        ways_out: commands that end the problem, mildest first.
        has_state: whether its checkpoint keeps state.
        state_format: the settings under which its state opens.
        state_damage: the first damaged file of its state.
        repeats_from: the epoch whose rows the table kept when the flow began to read its sources again; None if it
            did not.
        old_parts: how many old parts of its folder can be removed.
        old_bytes: their bytes.
    """

    name: str
    dataset: str
    mode: str = ""
    folder: str = ""
    problem: PipelineError | None = None
    ways_out: tuple[str, ...] = ()
    has_state: bool = False
    state_format: Mapping[str, str] = field(default_factory=dict)
    state_damage: StateDamage | None = None
    repeats_from: int | None = None
    old_parts: int = 0
    old_bytes: int = 0


@dataclass(frozen=True)
class Backlog:
    """What a flow had not read at a time, by source and unit, such as files or offsets."""

    at: float
    unread: Mapping[tuple[str, str], float]


@dataclass(frozen=True)
class Failure:
    """The newest error of a flow in the event log; *is_final* unless the flow was retried after it."""

    flow: str
    dataset: str
    error: Mapping[str, Any]
    is_final: bool


@dataclass(frozen=True)
class PastWarning:
    """A warning of the event log, and when it was recorded, in seconds since 1970."""

    at: float
    event: Warned
    in_latest_update: bool


@dataclass(frozen=True)
class Logged:
    """What the event log has, newest definitions first.

    Attributes:
        state: of the latest update; empty without one.
        started_at: when it began, in seconds since 1970; 0 without one.
        config: its settings as it recorded them.
        pipelines: the ids of the pipelines of the latest updates, oldest first.
        flows: the flows of the code by name.
        datasets: the datasets of the code by name.
        sinks: its sinks by name.
        failures: by flow.
        warnings: those of the latest update, and earlier ones about lost rows.
        cleared: by dataset, when a full refresh last cleared it.
        backlogs: by flow, oldest first.
        batches: by flow, reports of its latest batches, oldest first.
        first_rows: by flow without a limit of its reader, the rows that its first batches read, oldest first.
    """

    state: str = ""
    started_at: float = 0
    config: Mapping[str, Any] = field(default_factory=dict)
    pipelines: tuple[str, ...] = ()
    flows: Mapping[str, FlowDefined] = field(default_factory=dict)
    datasets: Mapping[str, DatasetDefined] = field(default_factory=dict)
    sinks: Mapping[str, SinkDefined] = field(default_factory=dict)
    failures: Mapping[str, Failure] = field(default_factory=dict)
    warnings: tuple[PastWarning, ...] = ()
    cleared: Mapping[str, float] = field(default_factory=dict)
    backlogs: Mapping[str, tuple[Backlog, ...]] = field(default_factory=dict)
    batches: Mapping[str, tuple[StreamBatches, ...]] = field(default_factory=dict)
    first_rows: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class ProgramFile:
    """A file of the program: its path relative to the project, its text, and what lint finds in it.

    *secrets* are texts of the file that must not be shown.
    """

    name: str
    text: str
    violations: tuple[Violation, ...] = ()
    secrets: frozenset[str] = frozenset()

    @property
    def is_sql(self) -> bool:
        """Whether it is a SQL file."""
        return self.name.endswith(".sql")

    @property
    def code(self) -> str:
        """The text that its language has, line for line as in the file: of a notebook, the code of its Python cells."""
        return self.text if self._notebook is None else self._notebook.text

    def line_at(self, location: Location) -> int | None:
        """The line of the file for a location in it; None if a notebook does not show it as a line."""
        return location.line if self._notebook is None else self._notebook.line_at(location)

    @cached_property
    def _notebook(self) -> NotebookCode | None:
        return notebook_code(self.text, self.name)


@dataclass(frozen=True)
class Machine:
    """The machine that the doctor runs on.

    Attributes:
        memory_bytes: its memory; 0 if unknown.
        volatile: why the storage does not outlive a restart; empty if it does, or if that is unknown.
        project_is_volatile: the same holds for the folder of the project.
        out_of_memory: the line of Spark's log that says that Java ran out of memory in the latest update.
    """

    memory_bytes: int = 0
    volatile: str = ""
    project_is_volatile: bool = False
    out_of_memory: str = ""


@dataclass(frozen=True)
class TableConflict:
    """What a table lacks of the schema that the latest update defined for it.

    Attributes:
        dataset: its name.
        change: from the schema of the table to one that accepts the rows of the query.
    """

    dataset: str
    change: SchemaChange


@dataclass(frozen=True)
class CrashTest:
    """The result of a test that lets an update crash, for the program text of today."""

    test: str
    passed: bool
    failpoints: tuple[str, ...] = ()
    at: float = 0


@dataclass(frozen=True)
class Unread:
    """A part of the pipeline that could not be read, and why.

    Attributes:
        part: in a few words.
        reason: why.
        path: of the file; empty if it is no file.
        next_step: what to do about it; empty if that is unknown.
    """

    part: str
    reason: str
    path: str = ""
    next_step: str = ""


@dataclass(frozen=True)
class Facts:
    """All that was read.

    Attributes:
        now: the time, in seconds since 1970.
        settings: the pipeline's.
        settings_text: the text of its settings file.
        samples: the current metrics.
        history: earlier ones, from checks of alerts.
        flows: the flows in the storage.
        logged: what the event log has.
        maintenance: what maintenance would do, and skip.
        programs: the program text.
        machine: the machine.
        conflicts: tables that no longer accept the rows of their queries.
        lateness_s: by name of a table and column, the delay of a watermark that keeps nearly all of its rows; None if
            it is unknown.
        not_measured: why a delay is unknown, by the same.
        crash_tests: results for the program text of today.
        channels_reached: by channel of today's settings, when it last accepted a message.
        latencies_s: by dataset, how far it may be behind, by requirements.yml; "" for those that it does not name.
        documents: the text of design.md and runbook.md, where they exist.
        unread: what could not be read.
    """

    now: float
    settings: Settings
    settings_text: str = ""
    samples: Samples = field(default_factory=Samples)
    history: History = field(default_factory=History)
    flows: tuple[StoredFlowFacts, ...] = ()
    logged: Logged = field(default_factory=Logged)
    maintenance: tuple[Action, ...] = ()
    programs: tuple[ProgramFile, ...] = ()
    machine: Machine = field(default_factory=Machine)
    conflicts: tuple[TableConflict, ...] = ()
    lateness_s: Mapping[tuple[str, str], float | None] = field(default_factory=dict)
    not_measured: Mapping[tuple[str, str], str] = field(default_factory=dict)
    crash_tests: tuple[CrashTest, ...] = ()
    channels_reached: Mapping[str, float] = field(default_factory=dict)
    latencies_s: Mapping[str, float] = field(default_factory=dict)
    documents: Mapping[str, str] = field(default_factory=dict)
    unread: tuple[Unread, ...] = ()

    @property
    def alert_facts(self) -> AlertFacts:
        """The same for the conditions of alerts."""
        return AlertFacts(self.samples, self.history, self.now, self.settings.alerts.lag_limits_s)

    @property
    def stored(self) -> Mapping[str, StoredFlowFacts]:
        """The flows in the storage by name."""
        return {flow.name: flow for flow in self.flows}

    def dataset_of(self, flow: str) -> str | None:
        """The target of a flow; None if the flow is unknown."""
        defined = self.logged.flows.get(flow)
        if defined is not None:
            return defined.dataset
        stored = self.stored.get(flow)
        return None if stored is None else stored.dataset

    def flow_into(self, dataset: str) -> str | None:
        """The flow that writes a dataset, if there is exactly one."""
        names = {name for name, flow in self.logged.flows.items() if flow.dataset == dataset}
        names = names or {flow.name for flow in self.flows if flow.dataset == dataset}
        return names.pop() if len(names) == 1 else None

    def full_name(self, name: str) -> str:
        """A name of the program as the pipeline knows it, with catalog and schema."""
        known = [dataset for dataset in self.logged.datasets if dataset.rpartition(".")[2] == name.rpartition(".")[2]]
        return known[0] if len(known) == 1 else name

    def readers_of(self, dataset: str) -> Iterator[str]:
        """The datasets whose flows read a dataset."""
        yield from (flow.dataset for flow in self.logged.flows.values() if dataset in flow.inputs)

    @property
    def settings_file(self) -> str:
        """The name of the settings file."""
        return Path(self.settings.file).name
