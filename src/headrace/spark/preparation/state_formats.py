"""In which format the state of a query is kept: that of its checkpoint, or what the session has for new ones (D8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from headrace.checkpoints.state_formats import format_for_new, format_in
from headrace.spark.session.default_confs import CHECKPOINT_CONFS


def new_format(session: SparkSession, own: Mapping[str, str]) -> Mapping[str, str]:
    """The settings that a new checkpoint is made with.

    Args:
        session: whose settings are in force.
        own: those of the query alone, which win.
    """
    return format_for_new({key: own.get(key) or str(session.conf.get(key)) for key in CHECKPOINT_CONFS})


def format_at(session: SparkSession, location: str, own: Mapping[str, str]) -> Mapping[str, str]:
    """The settings that a query starts with, given where its checkpoint is: on a disk, or wherever Hadoop reads."""
    try:
        return _format_of(session, location) or new_format(session, own)
    except Py4JJavaError:
        # Spark says itself that it cannot go there, and better.
        return new_format(session, own)


def _format_of(session: SparkSession, location: str) -> Mapping[str, str]:
    jvm: Any = session._jvm  # noqa: SLF001 - Python has no file system of Hadoop's
    java: Any = session._jsparkSession  # noqa: SLF001 - the same
    folder = jvm.org.apache.hadoop.fs.Path(location)
    files = folder.getFileSystem(java.sessionState().newHadoopConf())
    done = _newest(files, jvm.org.apache.hadoop.fs.Path(folder, "commits"))
    if done is None:
        return {}
    planned = _newest(files, jvm.org.apache.hadoop.fs.Path(folder, "offsets"))
    return format_in("" if planned is None else _text(jvm, files, planned), _text(jvm, files, done))


def _newest(files: Any, folder: Any) -> Any:
    """The file of the newest batch in a folder, or None."""
    if not files.exists(folder):
        return None
    found = [entry.getPath() for entry in files.listStatus(folder)]
    numbered = [path for path in found if str(path.getName()).isdigit()]
    return max(numbered, key=lambda path: int(path.getName()), default=None)


def _text(jvm: Any, files: Any, path: Any) -> str:
    stream = files.open(path)
    try:
        return str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    finally:
        stream.close()
