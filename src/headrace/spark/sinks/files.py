"""Files as a sink: those of a batch appear in a folder exactly once, and each of them whole.

Spark writes a batch into a folder of its own, out of sight of whoever reads. What is in it, and the names that it gets,
is then noted in a journal, and the files are moved to these names. A crash before the note leaves what nobody sees, and
the batch is written anew; one after it leaves moves to be made, which the next update makes from the journal, without
computing anything. Files that are there are never replaced by others.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headrace.errors import PipelineError
from headrace.runtime.failpoints import Failpoint
from headrace.sinks.commit_notes import Note
from headrace.spark.sinks.sink import Batch, Guard

# Names that begin so are passed over by readers of Spark, Hive and Auto Loader.
_ASIDE = "_headrace"
_DIGEST_LENGTH = 16
# File systems whose FileContext replaces a file by another one in a single step.
_RENAME_OVERWRITES = ("hdfs", "viewfs")


@dataclass(frozen=True)
class FilesSink:
    """A folder of files.

    Attributes:
        format: of the files, by Spark's name.
        path: of the folder, with its scheme where it is none of a local disk.
        guard: what is done around each step.
        options: of Spark's writer.
        partition_by: columns that are folders.
    """

    format: str
    path: str
    guard: Guard
    options: Mapping[str, str] = field(default_factory=dict)
    partition_by: tuple[str, ...] = ()

    def deliver(self, rows: DataFrame, batch: Batch) -> int | None:
        """Write the files of a batch, or finish what an earlier try of it has begun."""
        digest = _digest(batch.transaction)
        folder = _Folder(rows.sparkSession, self.path, f"{_ASIDE}/{digest}")
        journal = folder.journal()
        has = journal.note.has(batch.number, batch.positions, f'"{self.path}"')
        if has and journal.done:
            return None
        if not has:
            draft = f"{_ASIDE}/{digest}/{batch.number}-{batch.attempt}"
            self.guard.before(Failpoint.TO_WRITE)
            writer = rows.write.format(self.format).mode("overwrite").options(**self.options)
            if self.partition_by:
                writer = writer.partitionBy(*self.partition_by)
            writer.save(f"{self.path}/{draft}")
            names = f"{digest}-{batch.epoch}-{batch.number:010}"
            moves = tuple(_moves(folder.files(draft), draft, names))
            journal = _Journal(Note(batch.number, batch.positions), draft, moves)
            self.guard.before(Failpoint.STAGED)
            if folder.journal().note.has(batch.number, batch.positions, f'"{self.path}"'):
                # Another update has taken over meanwhile.
                return None
            folder.note(journal)
        self._publish(folder, journal)
        return None

    def note_of(self, transaction: str, session: SparkSession) -> Note:
        """The last batch that the folder has of a transaction, by its journal.

        Journals of version 0.1 stayed as they were first written; what was published since is known by its names.
        """
        digest = _digest(transaction)
        folder = _Folder(session, self.path, f"{_ASIDE}/{digest}")
        journal = folder.journal()
        if not journal.first_only:
            return journal.note
        numbers = [int(name["number"]) for file in folder.files(".") if (name := _published(digest).search(file))]
        return Note(max([journal.note.batch, *numbers]))

    def _publish(self, folder: _Folder, journal: _Journal) -> None:
        """Give the files of a batch their names; safe to repeat after a crash."""
        for source, name in journal.moves:
            self.guard.before(Failpoint.TO_PUBLISH)
            folder.move(source, name)
        self.guard.before(Failpoint.PUBLISHED)
        folder.note(_Journal(journal.note, "", (), done=True))
        folder.clear_drafts()
        self.guard.at(Failpoint.WRITTEN)


def _published(digest: str) -> re.Pattern[str]:
    """The name of a file that was published."""
    return re.compile(rf"(?:^|/){digest}--?\d+-(?P<number>\d{{10}})-\d{{5}}[^/]*$")


def _digest(transaction: str) -> str:
    return hashlib.sha256(transaction.encode()).hexdigest()[:_DIGEST_LENGTH]


@dataclass(frozen=True)
class _Journal:
    """The newest batch of a flow in an epoch, and the moves that are still to be made unless it is done.

    One that is ``first_only`` is from a version that did not replace it.
    """

    note: Note = field(default_factory=Note)
    draft: str = ""
    moves: tuple[tuple[str, str], ...] = ()
    done: bool = False
    first_only: bool = False


def _moves(files: Iterator[str], draft: str, names: str) -> Iterator[tuple[str, str]]:
    """Where each file of a draft goes; Spark's own names have an identifier in them that each try makes anew."""
    for number, file in enumerate(sorted(files)):
        *parents, last = file.removeprefix(f"{draft}/").split("/")
        suffix = last.partition(".")[2]
        yield file, "/".join((*parents, f"{names}-{number:05}{'.' if suffix else ''}{suffix}"))


class _Folder:
    """The folder of a sink, on whatever file system Spark writes to; paths are relative to it."""

    def __init__(self, session: SparkSession, path: str, aside: str) -> None:
        jvm: Any = session._jvm  # noqa: SLF001 - Hadoop's file systems have no Python
        conf: Any = session._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001 - the same
        self._jvm, self._conf = jvm, conf
        self._root = jvm.org.apache.hadoop.fs.Path(path)
        self._files = self._root.getFileSystem(conf)
        self._aside = aside
        self._journal = f"{aside}/journal.json"
        self._moves_at_once = str(self._files.getUri().getScheme()) in ("file", "hdfs")

    def journal(self) -> _Journal:
        """What was noted last."""
        path = self._at(self._journal)
        if not self._files.exists(path):
            return _Journal()
        stream = self._files.open(path)
        try:
            said = json.loads(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()
        note = Note(said["batch"], said.get("positions", ""))
        moves = tuple(map(tuple, said["moves"]))
        return _Journal(note, said["draft"], moves, said["done"], first_only="positions" not in said)

    def note(self, journal: _Journal) -> None:
        """Store a journal in the place of the one before, whole or not at all."""
        noted = {"batch": journal.note.batch, "positions": journal.note.positions}
        text = json.dumps({**noted, "draft": journal.draft, "moves": journal.moves, "done": journal.done})
        path = self._at(self._journal)
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
            # Where a file is an object, it is there once its upload is complete.
            stream = self._files.create(path, True)  # noqa: FBT003 - the same
        stream.write(bytearray(text.encode()))
        stream.close()

    def _replace_locally(self, file: Path, text: str) -> None:
        # Hadoop's FileSystem renames no file over another one here. Its sums are those of the file before.
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
        draft = file.with_name(f".{file.name}.{os.getpid()}")
        with draft.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(file)

    def files(self, folder: str) -> Iterator[str]:
        """The files below a folder, but those that are none of the rows'."""
        root = self._files.makeQualified(self._root).toString().rstrip("/")
        found = self._files.listFiles(self._at(folder), True)  # noqa: FBT003 - in all folders below
        while found.hasNext():
            path = found.next().getPath()
            if not path.getName().startswith(("_", ".")):
                yield path.toString().removeprefix(f"{root}/")

    def move(self, source: str, name: str) -> None:
        """Give a file its name; nothing happens to one that has it.

        Raises:
            PipelineError: SINK.FILE_GONE: it is nowhere.
        """
        given, wanted = self._at(source), self._at(name)
        if not self._files.exists(given):
            if not self._files.exists(wanted):
                raise PipelineError("SINK.FILE_GONE", file=given.toString(), name=wanted.toString())
            return
        self._files.mkdirs(wanted.getParent())
        # Where moving is copying, a crash leaves a part of a file under its name.
        if self._files.exists(wanted) and not self._moves_at_once:
            self._files.delete(wanted, False)  # noqa: FBT003 - a file
        if not self._files.rename(given, wanted) and not (self._files.exists(wanted) and not self._files.exists(given)):
            raise PipelineError("SINK.FILE_GONE", file=given.toString(), name=wanted.toString())

    def clear_drafts(self) -> None:
        """Take away what tries have left; nothing that is noted lies there any more."""
        for found in self._files.listStatus(self._at(self._aside)):
            if found.isDirectory():
                self._files.delete(found.getPath(), True)  # noqa: FBT003 - with all that is in it

    def _at(self, relative: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, relative)
