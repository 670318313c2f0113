"""Loads the files of a project with its settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.project.loading.files import load_files
from headrace.project.loading.load_result import LoadResult
from headrace.project.loading.worker_modules import ship_modules
from headrace.project.scratch import scratch
from headrace.settings.dbutils import DbUtils
from headrace.settings.secrets import Secrets
from headrace.settings.settings import Settings


def load_project(
    session: SparkSession, files: tuple[Path, ...], settings: Settings, secrets: Secrets, environ: Mapping[str, str]
) -> LoadResult:
    """Load the files of a project in a session: their definitions, problems and notices."""
    # First, because a UDF captures the list of shipped modules when a query first calls it.
    ship_modules(session, settings.root_path, scratch("modules"))
    return load_files(
        files,
        root=settings.root,
        import_root=settings.root_path,
        naming=settings.naming,
        configuration=settings.resolved_configuration(secrets, environ),
        globals_={"spark": session, "dbutils": DbUtils(secrets)},
        parameters=settings.resolved_parameters(secrets, environ),
        needed=settings.dependencies,
    )
