"""The part of a project that needs a session, and none of the project's code."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import SparkSession

from headrace.project.erasure.erasures import Erasures
from headrace.project.inspection.stored_project import StoredProject
from headrace.project.inspection.table_diffs import TableDiffs
from headrace.project.savepoints.savepoints import PipelineSavepoints
from headrace.project.savepoints.topics import AskBrokers
from headrace.settings.settings import Settings


class SessionProject(StoredProject):
    """A pipeline, read from its storage and changed through a session.

    Args:
        settings: the pipeline's.
        environ: the process environment.
        session: opens the session.
        ask_brokers: asks whether the records are still there that a restore reads again.
    """

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        session: Callable[[], SparkSession],
        ask_brokers: AskBrokers,
    ) -> None:
        super().__init__(settings, environ)
        self.erasures = Erasures(settings, environ, session, self.redact)
        self.diffs = TableDiffs(settings, self._secrets, environ)
        self.savepoints = PipelineSavepoints(settings, environ, session, self.redact, ask_brokers)
