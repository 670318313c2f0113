"""Runs the SQL statements of a pipeline's users, over this pipeline and others."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from headrace.model.rows import Rows
from headrace.project.inspection.monitored_pipelines import monitored_pipelines
from headrace.project.inspection.sql_access import run_statement
from headrace.settings.settings import Settings
from headrace.spark.update.catalog import Catalog


@dataclass(frozen=True)
class PipelineSql:
    """Runs statements.

    Attributes:
        settings: the pipeline's.
        environ: the process environment.
        catalog: opens a session's empty catalog; called for a statement that is allowed.
        redact: removes secrets from error messages.
    """

    settings: Settings
    environ: Mapping[str, str]
    catalog: Callable[[], Catalog]
    redact: Callable[[str], str]

    def run(self, query: str, *, write: bool, private: bool, also: Sequence[str], limit: int | None) -> Rows:
        """The rows of a statement, which reads only unless *write* is true.

        Args:
            query: one statement.
            write: allow statements that change data.
            private: include private tables.
            also: folders of other projects, or folders whose subfolders are projects, for ``system.lakeflow.*``.
            limit: the maximum number of rows; None for all.

        Raises:
            PipelineError: SQL.NOT_READ_ONLY, SQL.PRIVATE, SQL.FAILED; VIEW.UNUSABLE; STORAGE.*.
        """
        return run_statement(
            query,
            self.catalog,
            self.settings,
            write=write,
            private=private,
            limit=limit,
            pipelines=lambda: monitored_pipelines(self.settings, also, self.environ, time.time),
            redact=self.redact,
        )
