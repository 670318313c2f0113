"""Files as a sink: the files of a batch appear in a folder exactly once, each of them complete.

Spark writes a batch to a hidden folder. A journal then records the files and their final names, and the files are
moved. After a crash before the journal entry, the batch is written again. After a later crash, the next update
completes the moves from the journal, without computing anything. Existing files are never replaced.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headrace.atomic_write import replace_file
from headrace.errors import PipelineError
from headrace.runtime.failpoints import Failpoint
from headrace.sinks.commit_notes import CommitRecord
from headrace.spark.sinks.sink import Batch
from headrace.spark.update.guard import Guard

# Readers of Spark, Hive and Auto Loader ignore names with this prefix.
_HIDDEN_FOLDER = "_headrace"
_DIGEST_LENGTH = 16
# File systems whose FileContext replaces a file atomically.
_RENAME_OVERWRITES = ("hdfs", "viewfs")


@dataclass(frozen=True)
class FilesSink:
    """A folder of files.

    Attributes:
        format: of the files, by Spark's name.
        path: of the folder, with its scheme unless it is local.
        guard: failpoints and fencing of each step.
        options: of Spark's writer.
        partition_by: partition columns.
    """

    format: str
    path: str
    guard: Guard
    options: Mapping[str, str] = field(default_factory=dict)
    partition_by: tuple[str, ...] = ()

    def deliver(self, rows: DataFrame, batch: Batch) -> int | None:
        """Write the files of a batch, or complete an earlier attempt."""
        digest = _digest_of(batch.transaction)
        folder = _Folder(rows.sparkSession, self.path, f"{_HIDDEN_FOLDER}/{digest}")
        journal = folder.read_journal()
        is_recorded = journal.record.includes(batch.number, batch.positions, f'"{self.path}"')
        if is_recorded and journal.done:
            return None
        if not is_recorded:
            draft = f"{_HIDDEN_FOLDER}/{digest}/{batch.number}-{batch.attempt}"
            self.guard.before(Failpoint.BEFORE_WRITE)
            writer = rows.write.format(self.format).mode("overwrite").options(**self.options)
            if self.partition_by:
                writer = writer.partitionBy(*self.partition_by)
            writer.save(f"{self.path}/{draft}")
            names = f"{digest}-{batch.epoch}-{batch.number:010}"
            moves = tuple(_moves(folder.files(draft), draft, names))
            journal = _Journal(CommitRecord(batch.number, batch.positions), draft, moves)
            self.guard.before(Failpoint.STAGED)
            if folder.read_journal().record.includes(batch.number, batch.positions, f'"{self.path}"'):
                # Another update has taken over meanwhile.
                return None
            folder.write_journal(journal)
        self._publish(folder, journal)
        return None

    def last_commit(self, transaction: str, session: SparkSession) -> CommitRecord:
        """The last batch of a transaction in the folder, from its journal.

        Version 0.1 never updated its journals; later batches are found by the names of their files.
        """
        digest = _digest_of(transaction)
        folder = _Folder(session, self.path, f"{_HIDDEN_FOLDER}/{digest}")
        journal = folder.read_journal()
        if not journal.first_only:
            return journal.record
        numbers = [int(name["number"]) for file in folder.files(".") if (name := _published(digest).search(file))]
        return CommitRecord(max([journal.record.batch, *numbers]))

    def _publish(self, folder: _Folder, journal: _Journal) -> None:
        """Move the files of a batch to their final names; safe to repeat after a crash."""
        for source, name in journal.moves:
            self.guard.before(Failpoint.BEFORE_PUBLISH)
            folder.move(source, name)
        self.guard.before(Failpoint.PUBLISHED)
        folder.write_journal(_Journal(journal.record, "", (), done=True))
        folder.clear_drafts()
        self.guard.failpoint(Failpoint.WRITTEN)


def _published(digest: str) -> re.Pattern[str]:
    """The pattern of a published file's name."""
    return re.compile(rf"(?:^|/){digest}--?\d+-(?P<number>\d{{10}})-\d{{5}}[^/]*$")


def _digest_of(transaction: str) -> str:
    return hashlib.sha256(transaction.encode()).hexdigest()[:_DIGEST_LENGTH]


@dataclass(frozen=True)
class _Journal:
    """The last batch of a flow in an epoch, and its pending moves unless it is done.

    ``first_only``: from a version that never updated its journals.
    """

    record: CommitRecord = field(default_factory=CommitRecord)
    draft: str = ""
    moves: tuple[tuple[str, str], ...] = ()
    done: bool = False
    first_only: bool = False


def _moves(files: Iterator[str], draft: str, names: str) -> Iterator[tuple[str, str]]:
    """The final name of each file of a draft. Spark's own names contain an identifier that each attempt generates."""
    for number, file in enumerate(sorted(files)):
        *parents, last = file.removeprefix(f"{draft}/").split("/")
        suffix = last.partition(".")[2]
        yield file, "/".join((*parents, f"{names}-{number:05}{'.' if suffix else ''}{suffix}"))


class _Folder:
    """The folder of a sink, on any file system that Spark writes to; paths are relative to it."""

    def __init__(self, session: SparkSession, path: str, hidden_folder: str) -> None:
        jvm: Any = session._jvm  # noqa: SLF001 - Hadoop's file systems have no Python
        conf: Any = session._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001 - the same
        self._jvm, self._conf = jvm, conf
        self._root = jvm.org.apache.hadoop.fs.Path(path)
        self._files = self._root.getFileSystem(conf)
        self._hidden_folder = hidden_folder
        self._journal = f"{hidden_folder}/journal.json"
        self._has_atomic_rename = str(self._files.getUri().getScheme()) in ("file", "hdfs")

    def read_journal(self) -> _Journal:
        """The last journal entry."""
        path = self._resolve(self._journal)
        if not self._files.exists(path):
            return _Journal()
        stream = self._files.open(path)
        try:
            document = json.loads(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()
        record = CommitRecord(document["batch"], document.get("positions", ""))
        moves = tuple(map(tuple, document["moves"]))
        return _Journal(record, document["draft"], moves, document["done"], first_only="positions" not in document)

    def write_journal(self, journal: _Journal) -> None:
        """Replace the journal, atomically."""
        record_fields = {"batch": journal.record.batch, "positions": journal.record.positions}
        text = json.dumps({**record_fields, "draft": journal.draft, "moves": journal.moves, "done": journal.done})
        path = self._resolve(self._journal)
        self._files.mkdirs(path.getParent())
        scheme = str(self._files.getUri().getScheme())
        if scheme == "file":
            self._replace_locally(Path(str(path.toUri().getPath())), text)
            return
        if scheme in _RENAME_OVERWRITES:
            checkpointing = self._jvm.org.apache.spark.sql.execution.streaming.checkpointing
            manager = checkpointing.FileContextBasedCheckpointFileManager(path, self._conf)
            stream = manager.createAtomic(path, True)  # noqa: FBT003 - replaces the one before
        else:
            # In an object store, a file appears once its upload is complete.
            stream = self._files.create(path, True)  # noqa: FBT003 - the same
        stream.write(bytearray(text.encode()))
        stream.close()

    def _replace_locally(self, file: Path, text: str) -> None:
        # Hadoop's local file system does not rename over an existing file. Its checksum file is of the old journal.
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
        replace_file(file, text)

    def files(self, folder: str) -> Iterator[str]:
        """The data files below a folder."""
        root = self._files.makeQualified(self._root).toString().rstrip("/")
        found = self._files.listFiles(self._resolve(folder), True)  # noqa: FBT003 - in all folders below
        while found.hasNext():
            path = found.next().getPath()
            if not path.getName().startswith(("_", ".")):
                yield path.toString().removeprefix(f"{root}/")

    def move(self, source: str, name: str) -> None:
        """Move a file to its final name; does nothing if it was moved before.

        Raises:
            PipelineError: SINK.FILE_GONE: it exists under neither name.
        """
        source_path, target_path = self._resolve(source), self._resolve(name)
        if not self._files.exists(source_path):
            if not self._files.exists(target_path):
                raise PipelineError("SINK.FILE_GONE", file=source_path.toString(), name=target_path.toString())
            return
        self._files.mkdirs(target_path.getParent())
        # If a move is a copy, a crash may leave a part of a file under its final name.
        if self._files.exists(target_path) and not self._has_atomic_rename:
            self._files.delete(target_path, False)  # noqa: FBT003 - a file
        if not self._files.rename(source_path, target_path) and not (
            self._files.exists(target_path) and not self._files.exists(source_path)
        ):
            raise PipelineError("SINK.FILE_GONE", file=source_path.toString(), name=target_path.toString())

    def clear_drafts(self) -> None:
        """Delete the drafts of all attempts; the files in the journal were moved before."""
        for found in self._files.listStatus(self._resolve(self._hidden_folder)):
            if found.isDirectory():
                self._files.delete(found.getPath(), True)  # noqa: FBT003 - with all that is in it

    def _resolve(self, relative: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, relative)
