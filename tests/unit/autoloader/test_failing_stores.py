"""A store that does not answer is no damaged file: no option leaves the file out, at whatever byte it happens."""

from __future__ import annotations

import errno
import gzip
import io
import json

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc

from headrace.autoloader.options import loader_options
from headrace.autoloader.reading import opening
from headrace.autoloader.reading.files import read_splits
from headrace.autoloader.reading.opening import CorruptFile
from headrace.autoloader.reading.plan import ReadPlan
from headrace.autoloader.reading.splits import Split
from headrace.autoloader.schemas.schema_sample import infer_schema
from headrace.errors import PipelineError
from headrace.model.ddl import parse_struct

ROWS = [{"a": number, "b": "x" * (number % 7)} for number in range(300)]
TABLE = pa.Table.from_pylist(ROWS)
LINES = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
SCHEMA = {
    "type": "record",
    "name": "Row",
    "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string"}],
}


def made(write, *arguments, **options):
    target = io.BytesIO()
    write(*arguments, target, **options)
    return target.getvalue()


def avro(codec):
    target = io.BytesIO()
    fastavro.writer(target, SCHEMA, ROWS, codec=codec, sync_interval=500)
    return target.getvalue()


FILES = {
    "a.json": LINES,
    "a.json.gz": gzip.compress(LINES),
    "a.csv": "".join(f"{row['a']},{row['b']}\n" for row in ROWS).encode(),
    "a.xml": "".join(f"<r><a>{row['a']}</a><b>{row['b']}</b></r>" for row in ROWS).encode(),
    "plain.avro": avro("null"),
    "a.avro": avro("deflate"),
    "a.orc": made(orc.write_table, TABLE),
    "a.parquet": made(pq.write_table, TABLE, row_group_size=50),
}
# What is damaged in a way that its format can tell.
JUDGED = ("a.json.gz", "plain.avro", "a.avro", "a.orc", "a.parquet")


class Failing(io.BytesIO):
    """The bytes of a store that gives so many of them, some at a time, and then raises."""

    def __init__(self, content, left, error):
        super().__init__(content)
        self.left = left
        self.error = error

    def readinto(self, buffer):
        if self.left <= 0:
            raise self.error
        count = super().readinto(memoryview(buffer)[: min(100, self.left)])
        self.left -= count
        return count


class Store:
    """A store of one file."""

    def __init__(self, file):
        """``file`` makes it anew each time that it is opened, or is what is raised then."""
        self.file = file

    def open_binary(self, _path):
        if isinstance(self.file, Exception):
            raise self.file
        return self.file()

    def uri(self, path):
        return path


def rows_of(name, file, folder=None, **changes):
    raised, rows = attempt(name, file, folder, **changes)
    if raised is not None:
        raise raised
    return rows


def attempt(name, file, folder=None, **changes):
    """What is raised, if anything, and the rows until then."""
    kind = "json" if name.endswith(".gz") else name.rpartition(".")[2]
    options = {"rowTag": "r"} if kind == "xml" else {}
    bad = None if folder is None else str(folder)
    plan = ReadPlan(kind, parse_struct("a BIGINT, b STRING"), "/", format_options=options, bad_records=bad, **changes)
    split = Split(f"/{name}", len(FILES[name]), 0, 0, len(FILES[name]))
    rows = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "store_of", lambda _: Store(file))
        try:
            for batch in read_splits(plan, [split]):
                rows += batch.to_pylist()
        except OSError as error:
            return error, rows
    return None, rows


def errors():
    return [
        TimeoutError(errno.ETIMEDOUT, "timed out"),
        OSError(errno.EIO, "input/output error"),
        OSError("When reading information for key: AWS Error SLOW_DOWN: please reduce your request rate"),
        PermissionError(errno.EACCES, "permission denied"),
    ]


@pytest.mark.parametrize("name", FILES)
@given(st.data())
@settings(max_examples=25, deadline=None)
def test_a_store_error_is_raised_and_no_file_is_skipped(tmp_path_factory, name, data):
    folder = tmp_path_factory.mktemp("bad")
    left = data.draw(st.integers(min_value=0, max_value=len(FILES[name]) - 1))
    error = data.draw(st.sampled_from(errors()))

    raised, rows = attempt(name, lambda: Failing(FILES[name], left, error), folder, corrupt_files=True)

    # Nothing may have asked for the bytes behind: the index of a file whose end is read first, for one.
    assert raised is error or len(rows) == len(ROWS)
    assert list(folder.rglob("part-*")) == []


@pytest.mark.parametrize("error", errors(), ids=lambda error: str(error)[:20])
def test_no_option_skips_a_file_that_cannot_be_opened(tmp_path, error):
    with pytest.raises(OSError) as raised:  # noqa: PT011 - which one is the question
        rows_of("a.json", error, tmp_path, corrupt_files=True, missing_files=True)

    assert raised.value is error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [name for name in FILES if not name.endswith("orc")])
def test_schema_inference_fails_on_a_store_error(name):
    kind = "json" if name.endswith(".gz") else name.rpartition(".")[2]
    options = loader_options({"cloudFiles.format": kind, **({"rowTag": "r"} if kind == "xml" else {})})
    files = [Split(f"/{name}", len(FILES[name]), 0, 0, len(FILES[name]))]

    def sampled(file):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(opening, "store_of", lambda _: Store(file))
            return infer_schema(files, options)

    for error in errors():
        code = "AUTO_LOADER.SAMPLE" if isinstance(error, PermissionError) else "AUTO_LOADER.SAMPLE_BROKEN_OFF"
        for file in (error, lambda error=error: Failing(FILES[name], 0, error)):
            with pytest.raises(PipelineError) as raised:
                sampled(file)
            assert raised.value.code == code
    assert sampled(FileNotFoundError(errno.ENOENT, "gone")) is None


def test_a_missing_file_is_skipped_if_missing_files_are_ignored():
    gone = FileNotFoundError(errno.ENOENT, "no such file")

    assert rows_of("a.json", gone, missing_files=True) == []
    with pytest.raises(FileNotFoundError):
        rows_of("a.json", gone, corrupt_files=True)


@pytest.mark.parametrize("name", JUDGED)
@given(st.data())
@settings(max_examples=25, deadline=None)
def test_a_truncated_file_is_corrupt_and_can_be_skipped(name, data):
    cut = FILES[name][: data.draw(st.integers(min_value=1, max_value=len(FILES[name]) - 1))]

    left_out = rows_of(name, lambda: io.BytesIO(cut), corrupt_files=True)
    raised, rows = attempt(name, lambda: io.BytesIO(cut))

    assert rows == left_out
    assert raised is None or isinstance(raised, CorruptFile)


@pytest.mark.parametrize("name", JUDGED)
def test_a_corrupt_file_is_recorded_in_bad_files(tmp_path, name):
    content = FILES[name]
    damaged = content[: len(content) // 2] + b"\xff" * 200 if name != "a.json.gz" else b"no gzip"

    with pytest.raises(CorruptFile, match=name):
        rows_of(name, lambda: io.BytesIO(damaged))
    rows_of(name, lambda: io.BytesIO(damaged), tmp_path)

    (note,) = (tmp_path / "bad_files").iterdir()
    assert json.loads(note.read_text())["path"] == f"/{name}"


def test_an_unwritable_bad_records_path_is_not_reported_as_a_corrupt_file(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")

    with pytest.raises(NotADirectoryError):
        rows_of("a.orc", lambda: io.BytesIO(b"no orc"), blocked, corrupt_files=False)
