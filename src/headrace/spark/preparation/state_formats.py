"""The state format of a query: that of its checkpoint, or the session's format for new ones (D8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from headrace.checkpoints.state_formats import format_for_new, format_in, format_of
from headrace.spark.session.default_confs import CHECKPOINT_CONFS
from headrace.stores.paths import StoragePath


def new_format(session: SparkSession, own: Mapping[str, str]) -> Mapping[str, str]:
    """The settings for a new checkpoint.

    Args:
        session: the session with the general settings.
        own: the query's own settings, which win.
    """
    return format_for_new({key: own.get(key) or str(session.conf.get(key)) for key in CHECKPOINT_CONFS})


def state_confs(session: SparkSession, checkpoint: StoragePath, own: Mapping[str, str]) -> Mapping[str, str]:
    """The settings of a local checkpoint: those that it was created with, or those for a new one."""
    return format_of(checkpoint) or new_format(session, own)


def format_at(session: SparkSession, location: str, own: Mapping[str, str]) -> Mapping[str, str]:
    """The settings that a query starts with, by the location of its checkpoint in any file system of Hadoop."""
    try:
        return _format_of(session, location) or new_format(session, own)
    except Py4JJavaError:
        # If the location is not accessible, Spark gives a better error itself.
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
