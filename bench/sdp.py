"""Spark's own pipelines as a contestant."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from scenario import program

SETTINGS_FILE = "spark-pipeline.yml"
# Spark's default catalog is in memory: a second run would not know the existing tables, and fail on their files.
_CONFS = ("--conf", "spark.driver.memory=2g", "--conf", "spark.sql.catalogImplementation=hive")
RUN = (program("spark-pipelines"), *_CONFS, "run")
_SETTINGS = """\
name: {name}
storage: file://{work}/storage
libraries:
  - glob:
      include: transformations/**
"""


def settings(name: str, work: Path) -> str:
    """The text of the settings file of a project in a folder."""
    return _SETTINGS.format(name=name, work=work)


def rows(work: Path) -> int:
    """The number of rows in all tables that Spark's own pipelines wrote under a folder."""
    import pyarrow.dataset as ds  # noqa: PLC0415 - no other contestant needs it

    folders = [folder for folder in (work / "spark-warehouse").iterdir() if folder.is_dir()]
    return sum(ds.dataset(str(folder), format="parquet").count_rows() for folder in folders)


def absent() -> str | None:
    """Why Spark's own pipelines cannot run here, or None."""
    needed = ("grpc", "grpc_status", "google.rpc", "zstandard")
    missing = [name for name in needed if not _importable(name)]
    return f"not installed: {', '.join(missing)}" if missing else None


def _importable(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False
