"""The ready session: Delta, the sources, names, checkpoints and settings as notebooks have them."""

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
from headrace.spark.notebook.notebook_session import NotebookSession, let_go, serve
from headrace.spark.notebook.notices import Notices
from headrace.spark.notebook.path_mapping import Places, default_paths
from headrace.spark.notebook.table_lookup import TableLookup
from headrace.spark.readers import auto_loader
from headrace.spark.session.catalog_entries import clear
from headrace.spark.startup.open_session import ALWAYS_THERE, open_session

_NONE: Mapping[str, str] = MappingProxyType({})


def spark_session(
    connectors: Iterable[str] = (), confs: Mapping[str, str] | None = None, storage: str | Path | None = None
) -> SparkSession:
    """A session for scripts and notebooks, with Delta, Auto Loader and the named connectors ready.

    Tables, checkpoints and ``dbfs:/`` are those of the project around the working directory, otherwise of
    ``./storage``; nothing is written before the script writes.

    Args:
        connectors: such as ``kafka``; Delta is always there.
        confs: Spark settings, which win over the defaults.
        storage: another place for tables and checkpoints.

    Raises:
        PipelineError, Problems: the settings of the project are wrong; CONNECTOR.* when Java or jars are missing.
    """
    around = script_storage_of(Path.cwd(), os.environ, storage=None if storage is None else str(storage))
    ready = make_ready(
        around,
        connectors=connectors,
        confs=confs or {},
        script=_program(around),
        say=lambda text: _print(around.secrets.redact(text)),
    )
    serve(ready)
    return ready.session


def make_ready(
    around: ScriptStorage,
    *,
    script: str,
    say: Callable[[str], None],
    connectors: Iterable[str] = (),
    confs: Mapping[str, str] = _NONE,
    paths: Mapping[str, str] = _NONE,
) -> NotebookSession:
    """A session with what makes it ready; it serves nobody yet.

    Args:
        around: the storage, names and settings.
        script: whose checkpoints those of unnamed queries are.
        say: tells a person a remark.
        connectors: besides those of the project.
        confs: Spark settings besides those of the project, over which they win.
        paths: beginnings of paths to what they stand for, besides those of the project.
    """
    storage, remarks = around.layout.root, Notices(say)
    placed = {**default_paths(storage), **around.paths, **paths}
    session = open_session(
        name=f"headrace {script}",
        connectors={*around.connectors, *connectors},
        confs={
            # A stream of files without a schema has that of the files that are there.
            "spark.sql.streaming.schemaInference": "true",
            **around.confs,
            **confs,
            "spark.sql.warehouse.dir": f"{storage}/tables/{around.naming.schema}",
            auto_loader.PATHS: json.dumps(placed),
        },
        log_folder=_log_folder(around),
        environ=os.environ,
        # As Python's own, whatever project is around.
        folder=Path.cwd(),
        redact=around.secrets.redact,
    )
    let_delta_be_imported(jars((ALWAYS_THERE,), environ=os.environ))
    let_go()
    clear(session)
    names = TableLookup(session, around.layout, around.naming)
    names.register_all()
    return NotebookSession(
        session=session,
        names=names,
        places=Places(placed, remarks),
        checkpoints=Checkpoints(around.layout, script),
        remarks=remarks,
    )


def _program(around: ScriptStorage) -> str:
    """The name of the program; of a console or a notebook it is none of a person's files."""
    file = Path(sys.argv[0]) if sys.argv and sys.argv[0] else None
    if file is None or not file.is_file() or file.suffix != ".py" or "site-packages" in file.absolute().parts:
        return "session"
    return around.script_name(file)


def _log_folder(around: ScriptStorage) -> Path:
    logs = Path(around.layout.logs)
    return logs if Path(around.layout.root).is_dir() else Path(tempfile.mkdtemp(prefix="headrace-"))


def _print(text: str) -> None:
    sys.stderr.write(f"{text}\n")
