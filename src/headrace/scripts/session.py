"""The notebook session: Delta, sources, names, checkpoints and settings as in the vendor's notebooks."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from pyspark.sql import SparkSession

from headrace.connectors.fetch import jars
from headrace.scripts.script_storage import ScriptStorage, script_storage_of
from headrace.spark.notebook.checkpoints import Checkpoints
from headrace.spark.notebook.delta_api import let_delta_be_imported
from headrace.spark.notebook.notebook_session import NotebookSession, activate, release_tables
from headrace.spark.notebook.notices import Notices
from headrace.spark.notebook.path_mapping import PathMapping, default_paths
from headrace.spark.notebook.table_lookup import TableLookup
from headrace.spark.readers import auto_loader
from headrace.spark.session.catalog_entries import clear
from headrace.spark.startup.open_session import open_session
from headrace.spark.startup.session_start import BASE_CONNECTOR

_NONE: Mapping[str, str] = MappingProxyType({})


def spark_session(
    connectors: Iterable[str] = (), confs: Mapping[str, str] | None = None, storage: str | Path | None = None
) -> SparkSession:
    """A session for scripts and notebooks, with Delta, Auto Loader and the named connectors.

    Tables, checkpoints and ``dbfs:/`` are in the storage of the project that contains the working directory, otherwise
    in ``./storage``. Nothing is written before the script writes.

    Args:
        connectors: such as ``kafka``; Delta is always there.
        confs: Spark settings, which override the defaults.
        storage: another folder for tables and checkpoints.

    Raises:
        PipelineError, Problems: the project's settings are wrong; CONNECTOR.* if Java or jars are missing.
    """
    storage_setup = script_storage_of(Path.cwd(), os.environ, storage=None if storage is None else str(storage))
    notebook_session = open_notebook_session(
        storage_setup,
        connectors=connectors,
        confs=confs or {},
        script=_program(storage_setup),
        say=lambda text: _print(storage_setup.secrets.redact(text)),
    )
    activate(notebook_session)
    return notebook_session.session


def open_notebook_session(
    storage_setup: ScriptStorage,
    *,
    script: str,
    say: Callable[[str], None],
    connectors: Iterable[str] = (),
    confs: Mapping[str, str] = _NONE,
    paths: Mapping[str, str] = _NONE,
) -> NotebookSession:
    """Open a notebook session, without activating it.

    Args:
        storage_setup: the storage, names and settings.
        script: the script that owns the checkpoints of unnamed queries.
        say: prints a notice.
        connectors: besides those of the project.
        confs: Spark settings, which override those of the project.
        paths: path prefixes and their targets, besides those of the project.
    """
    storage, notices = storage_setup.layout.root, Notices(say)
    mappings = {**default_paths(storage), **storage_setup.paths, **paths}
    session = open_session(
        name=f"headrace {script}",
        connectors={*storage_setup.connectors, *connectors},
        confs={
            # A file stream without a schema takes that of the existing files.
            "spark.sql.streaming.schemaInference": "true",
            **storage_setup.confs,
            **confs,
            "spark.sql.warehouse.dir": f"{storage}/tables/{storage_setup.naming.schema}",
            auto_loader.PATHS: json.dumps(mappings),
        },
        log_folder=_log_folder(storage_setup),
        environ=os.environ,
        # As Python does, whatever the project.
        folder=Path.cwd(),
        redact=storage_setup.secrets.redact,
    )
    let_delta_be_imported(jars((BASE_CONNECTOR,), environ=os.environ))
    release_tables()
    clear(session)
    names = TableLookup(session, storage_setup.layout, storage_setup.naming)
    names.register_all()
    return NotebookSession(
        session=session,
        names=names,
        paths=PathMapping(mappings, notices),
        checkpoints=Checkpoints(storage_setup.layout, script),
        notices=notices,
    )


def _program(storage_setup: ScriptStorage) -> str:
    """The name of the script; ``session`` for a console or a notebook."""
    file = Path(sys.argv[0]) if sys.argv and sys.argv[0] else None
    if file is None or not file.is_file() or file.suffix != ".py" or "site-packages" in file.absolute().parts:
        return "session"
    return storage_setup.script_name(file)


def _log_folder(storage_setup: ScriptStorage) -> Path:
    logs = Path(storage_setup.layout.logs)
    return logs if Path(storage_setup.layout.root).is_dir() else Path(tempfile.mkdtemp(prefix="headrace-"))


def _print(text: str) -> None:
    sys.stderr.write(f"{text}\n")
