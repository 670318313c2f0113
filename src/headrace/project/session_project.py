"""The part of a project that needs a session, and none of the project's code."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import SparkSession

from headrace.project.erasure.erasures import Erasures
from headrace.project.inspection.stored_project import StoredProject
from headrace.project.inspection.table_diffs import TableDiffs
from headrace.project.publication.connect import publication_of
from headrace.project.savepoints.savepoints import PipelineSavepoints
from headrace.project.savepoints.topics import AskBrokers
from headrace.project.staging.build import CodeProject
from headrace.project.staging.stages import PipelineStages
from headrace.project.staging.swaps import StageSwaps
from headrace.settings.settings import Settings


class SessionProject(StoredProject):
    """A pipeline, read from its storage and changed through a session.

    Args:
        settings: the pipeline's.
        environ: the process environment.
        session: opens the session.
        open_project: opens the project of other settings, to build a stage.
        ask_brokers: asks whether the records are still there that a restore reads again.
    """

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        session: Callable[[], SparkSession],
        open_project: Callable[[Settings], CodeProject],
        ask_brokers: AskBrokers,
    ) -> None:
        super().__init__(settings, environ)
        self.publication = publication_of(settings, environ, self._secrets, session)
        self.erasures = Erasures(settings, environ, session, self.redact)
        self.diffs = TableDiffs(settings, self._secrets, environ)
        self.savepoints = PipelineSavepoints(settings, environ, session, self.redact, ask_brokers)
        swaps = StageSwaps(settings, environ, session, self.redact, self.savepoints)
        self.stages = PipelineStages(settings, environ, swaps, self.diffs, open_project)
