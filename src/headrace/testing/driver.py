"""Runs a project in a test: rows in, updates, crashes and restarts, rows out."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import yaml
from pyspark.sql.types import DataType

from headrace.errors import PipelineError
from headrace.events.types import Event
from headrace.graph.select import Selection
from headrace.model.names import QualifiedName
from headrace.model.rows import Rows
from headrace.plan.backfills import BackfillRequest, ReplayRequest
from headrace.plan.steps import Plan
from headrace.project.open import Project
from headrace.project.test_harness import Harness, utc_now
from headrace.runtime.failpoints import Failpoint
from headrace.settings.discover import find_settings
from headrace.settings.load import load_settings
from headrace.settings.settings import Settings
from headrace.settings.storage import StorageLayout
from headrace.testing.continuous import ContinuousUpdate
from headrace.testing.crash import CrashFailpoint
from headrace.testing.folder import ProjectFolder
from headrace.testing.result import Result, table_path
from headrace.testing.rows import SortedRows
from headrace.testing.stand_ins import StandIn, with_stand_ins

# Not copied: output of updates and tools. Hidden files are not copied either.
_EXCLUDED = frozenset({"__pycache__", "site-packages", "node_modules"})
# Larger files are data, and are linked.
_MAX_COPIED_BYTES = 1_000_000


class Pipeline(ProjectFolder):
    """A project with its own storage. Every step returns when it is done; nothing runs in between.

    Args:
        folder: the project, or a folder in it.
        storage: the folder of tables, checkpoints and events.
        environ: the environment.
        scratch: the folder for copies of other projects.
    """

    def __init__(self, folder: Path, storage: Path, environ: Mapping[str, str], scratch: Path | None = None) -> None:
        settings = load_settings(find_settings(folder), environ=environ)
        catalogs = settings.catalogs_to_read
        super().__init__(replace(settings, storage=str(storage), catalogs=catalogs), copied=scratch is not None)
        self._environ = environ
        self._scratch = scratch
        self._stand_ins: dict[QualifiedName, StandIn] = {}
        self._failpoint = CrashFailpoint()
        # Those that :meth:`crash_at` has set so far.
        self.crashes: list[CrashFailpoint] = []
        # The time of events, for tests of what metrics and alerts say hours later.
        self.clock = utc_now

    @classmethod
    def nearest(cls, start: Path, scratch: Path) -> Pipeline:
        """A copy in *scratch* of the project at or above *start*, without the storages of its profiles."""
        settings = load_settings(find_settings(start), environ=os.environ)
        number = sum(1 for entry in scratch.iterdir() if entry.name.startswith("project"))
        folder = scratch / f"project{number or ''}"
        _copy(settings, folder)
        return cls(folder, folder / "storage", os.environ, scratch)

    def __call__(self, folder: Path | str) -> Pipeline:
        """Another project, in a copy of its own."""
        return Pipeline.nearest(Path(folder).absolute(), self._scratch or self.folder.parent)

    @property
    def project(self) -> Project:
        """The project as a program sees it."""
        return self._opened(())

    def given(self, name: str, *batches: Sequence[Mapping[str, Any]], schema: str | DataType | None = None) -> Pipeline:
        """Replace a dataset with a table of exactly these rows; its own flows do not run, its inputs are not read.

        Args:
            name: a dataset of the project, or a view.
            batches: rows as dictionaries; each batch is one commit, so that a stream with ``maxFilesPerTrigger`` 1
                reads them one by one. Missing columns are null, ISO texts become times. A second call adds rows.
            schema: DDL or a StructType (default: what the project declares, or what its queries return).
        """
        canonical = self.settings.naming.canonical(name)
        path = table_path(self.settings.layout, self.settings.naming, name)
        stand_in = self._stand_ins.setdefault(canonical, StandIn(path))
        stand_in.schema = schema if schema is not None else stand_in.schema
        stand_in.pending.extend(list(batch) for batch in batches)
        return self

    def run(
        self,
        *names: str,
        full_refresh: Sequence[str] = (),
        full_refresh_all: bool = False,
        exclude: Sequence[str] = (),
        reset_checkpoint: Sequence[str] = (),
        accept_data_loss: bool = False,
        on_event: Callable[[Event], None] | None = None,
    ) -> Result:
        """Run one update with the real engine: of the named datasets only, or of the whole project.

        The other arguments are those of ``Project.run``.

        Raises:
            Crashed: the update crashed where :meth:`crash_at` said.
            Problems, PipelineError: as ``Project.run``.
            AssertionError: it should have crashed and did not.
        """
        project = self._opened((*names, *full_refresh) if names else ())
        outcome = project.run(
            names,
            full_refresh,
            full_refresh_all=full_refresh_all,
            exclude=exclude,
            reset_checkpoint=reset_checkpoint,
            accept_data_loss=accept_data_loss,
            on_event=on_event,
        )
        self._failpoint.check()
        return Result(outcome, self.settings.layout, self.settings.naming)

    def backfill(self, name: str, start: str = "earliest", end: str = "latest", *, again: bool = False) -> Result:
        """Run the query of a stream as a batch over a range; see ``Project.backfill``.

        Raises:
            Crashed: it crashed where :meth:`crash_at` said.
        """
        outcome = self._opened(()).backfill(BackfillRequest(name, start, end, again))
        self._failpoint.check()
        return Result(outcome, self.settings.layout, self.settings.naming)

    def replay(
        self,
        name: str,
        *,
        rules: Sequence[str] = (),
        changes: Sequence[str] = (),
        release: bool = False,
        abandon: bool = False,
        from_source: bool = False,
    ) -> Result:
        """Check quarantined rows again with the current rules; see ``Project.replay``.

        Raises:
            Crashed: it crashed where :meth:`crash_at` said.
        """
        given = tuple(rules), tuple(changes)
        wanted = ReplayRequest(name, *given, applies_rules=not release, abandon=abandon, from_source=from_source)
        outcome = self._opened(()).replay(wanted)
        self._failpoint.check()
        return Result(outcome, self.settings.layout, self.settings.naming)

    def continuing(self, timeout_s: float = 60.0) -> ContinuousUpdate:
        """A continuous update that runs in the background during a ``with`` block."""
        settings = self.settings
        return ContinuousUpdate(
            self._opened(()), partial(Result, layout=settings.layout, naming=settings.naming), timeout_s
        )

    def plan(
        self,
        *names: str,
        full_refresh: Sequence[str] = (),
        full_refresh_all: bool = False,
        exclude: Sequence[str] = (),
        reset_checkpoint: Sequence[str] = (),
        accept_data_loss: bool = False,
    ) -> Plan:
        """The plan of :meth:`run`; writes only the rows of :meth:`given`."""
        selection = Selection(
            refresh=names,
            full_refresh=tuple(full_refresh),
            full_refresh_all=full_refresh_all,
            exclude=tuple(exclude),
            reset_checkpoint=tuple(reset_checkpoint),
            accept_data_loss=accept_data_loss,
        )
        return self._opened((*names, *full_refresh) if names else ()).plan(selection)

    def crash_at(self, point: Failpoint | str, *, skip: int = 0) -> Pipeline:
        """Make the next updates crash at a failpoint, as if the process had died there.

        Args:
            point: see :class:`headrace.testing.Failpoint`.
            skip: how often an update passes the failpoint first.
        """
        self._failpoint = CrashFailpoint(Failpoint(point), skip)
        self.crashes.append(self._failpoint)
        return self

    def restart(self) -> Pipeline:
        """Let updates run again, as a new process would after the crash."""
        self._failpoint = CrashFailpoint()
        return self

    def recomputed(self, name: str) -> SortedRows:
        """The expected result of :meth:`rows`: its queries over the current tables, with streams as batches."""
        found = self._opened(()).recompute(name)
        return SortedRows([dict(zip(found.columns, row, strict=True)) for row in found.rows])

    def sql(self, query: str) -> Rows:
        """Run a query over the tables and the event log."""
        return self.project.sql(query)

    def _opened(self, only: Iterable[str]) -> Project:
        only = tuple(only)
        # What a selector finds is known once everything is resolved.
        names = frozenset(map(self.settings.naming.canonical, only if Selection(only).is_exact else ()))
        given = frozenset(self._stand_ins)
        rewrite = partial(with_stand_ins, stand_ins=self._stand_ins)
        return Project(self.settings, self._environ, Harness(self._failpoint, rewrite, given, names, clock=self.clock))


class NoProject:
    """The fixture of a test outside any project: it can open other projects, and raises when used as one."""

    def __init__(self, error: PipelineError, scratch: Path) -> None:
        self._error = error
        self._scratch = scratch

    def __call__(self, folder: Path | str) -> Pipeline:
        """The project at or above *folder*, in a copy."""
        return Pipeline.nearest(Path(folder).absolute(), self._scratch)

    def __getattr__(self, name: str) -> NoReturn:
        raise self._error


def open_nearest(start: Path, scratch: Path) -> Pipeline | NoProject:
    """The project around *start*; see :meth:`Pipeline.nearest`."""
    try:
        return Pipeline.nearest(start, scratch)
    except PipelineError as error:
        return NoProject(error, scratch)


def write_project(folder: Path, files: Mapping[str, str], settings: Mapping[str, Any]) -> None:
    """Write a project from texts; adds a name to its settings if they have none."""
    for path, text in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    settings_file = folder / "pipeline.yml"
    if not settings_file.exists():
        settings_file.write_text(yaml.safe_dump({"name": folder.name, **settings}), encoding="utf-8")


def _copy(settings: Settings, folder: Path) -> None:
    storage = Path(settings.storage)

    def is_storage(entry: Path) -> bool:
        # Other profiles have storages too, one of which may have the name of the copy's own.
        return entry.resolve() == storage.resolve() or Path(StorageLayout(str(entry)).events).is_dir()

    def excluded(parent: str, names: list[str]) -> set[str]:
        return {name for name in names if name.startswith(".") or name in _EXCLUDED or is_storage(Path(parent, name))}

    shutil.copytree(settings.root, folder, ignore=excluded, copy_function=_copy_or_link)


def _copy_or_link(source: str, target: str) -> str:
    if Path(source).stat().st_size > _MAX_COPIED_BYTES:
        Path(target).symlink_to(Path(source).resolve())
        return target
    return str(shutil.copy2(source, target))
