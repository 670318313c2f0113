"""Rates of reading, for some forty shapes of input: ``python bench/reading.py [--spark] [SHAPE...]``.

For each shape: megabytes of the file for each second of processor time. Headrace's readers run as in a worker of Spark,
without a JVM; what Spark then does with the rows is not part of it. With ``--spark``, Spark's own readers read the same
file with the same schema in one session with one core, into nothing; the times are those of its JVM. Each figure is the
median of several rounds, after a first one that does not count.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from headrace.autoloader.reading.files import read_splits
from headrace.autoloader.reading.plan import ReadPlan
from headrace.autoloader.reading.splits import Split
from headrace.model.ddl import parse_struct

ROUNDS = 3
SPLIT_BYTES = 128 * 1024 * 1024
_KINDS = ("start", "stop", "reading", "alarm", "reset", "check", "open", "close", "idle")
_EVENT = "id BIGINT, device INT, kind STRING, amount DOUBLE, note STRING"
_TEXTS = "id STRING, device STRING, kind STRING, amount STRING, note STRING"
_NESTED = "id BIGINT, device STRUCT<id: INT, kind: STRING, at: STRUCT<x: DOUBLE, y: DOUBLE>>, note STRING"
_TIMED = "id BIGINT, device INT, at TIMESTAMP, note STRING"
_DATED = "id BIGINT, device INT, day DATE, note STRING"

Row = Callable[[random.Random, int], str]


@dataclass(frozen=True)
class Shape:
    """A shape of input: the columns to read, options of the reader, and a function that writes the text of a row."""

    file_format: str
    columns: str
    row: Row
    options: Mapping[str, str] = field(default_factory=dict)
    head: str = ""
    tail: str = ""
    between: str = "\n"


def _event(chance: random.Random, number: int, *, more: str = "", **changes: str) -> str:
    values = {
        "id": str(number),
        "device": str(chance.randrange(1000)),
        "kind": f'"{_KINDS[number % 9]}"',
        "amount": str(round(chance.gauss(50, 21.5), 2)),
        "note": f'"n{chance.randrange(10**9)}"',
    }
    values |= changes
    return "{" + ",".join(f'"{name}":{value}' for name, value in values.items()) + more + "}"


def _one_in(many: int, unusual: Row, usual: Row = _event) -> Row:
    return lambda chance, number: (unusual if number % many == many // 2 else usual)(chance, number)


def _attributes(chance: random.Random, number: int) -> str:
    pairs = (f'"{name}":"{_KINDS[chance.randrange(9)]}"' for name in ("zone", "state", "owner"))
    return f'{{"id":{number},"device":{chance.randrange(1000)},"tags":{{{",".join(pairs)}}}}}'


def _point(chance: random.Random, number: int) -> str:
    at = f'{{"x":{chance.random():.4f},"y":{chance.random():.4f}}}'
    device = f'{{"id":{chance.randrange(1000)},"kind":"{_KINDS[number % 9]}","at":{at}}}'
    return f'{{"id":{number},"device":{device},"note":"n{chance.randrange(10**9)}"}}'


def _payload(chance: random.Random, number: int) -> str:
    payload = f'{{"kind":"{_KINDS[number % 9]}","amount":{chance.random():.3f},"tags":["a","b"]}}'
    return f'{{"id":{number},"device":{chance.randrange(1000)},"payload":{payload}}}'


def _arrays(chance: random.Random, number: int) -> str:
    points = ",".join(f'{{"x":{chance.randrange(100)},"y":"{_KINDS[chance.randrange(9)]}"}}' for _ in range(3))
    return f'{{"id":{number},"values":[{chance.random():.3f},{chance.random():.3f}],"points":[{points}]}}'


def _time(chance: random.Random) -> str:
    day, clock = f"{chance.randrange(1, 29):02}/{chance.randrange(1, 13):02}/2024", chance.randrange(86_400)
    return f"{day} {clock // 3600:02}:{clock // 60 % 60:02}:{clock % 60:02}"


def _iso(chance: random.Random) -> str:
    return f"2024-{chance.randrange(1, 13):02}-{chance.randrange(1, 29):02}T{chance.randrange(24):02}:30:05.123Z"


def _timed(written: Callable[[random.Random], str], name: str = "at") -> Row:
    return lambda chance, number: (
        f'{{"id":{number},"device":{chance.randrange(1000)},"{name}":"{written(chance)}","note":"n{chance.random()}"}}'
    )


def _over_lines(chance: random.Random, number: int) -> str:
    return _event(chance, number).replace(",", ",\n  ").replace("{", "{\n  ")


def _line(chance: random.Random, number: int, *, note: str = "", separator: str = ",", amount: str = "") -> str:
    amount = amount or str(round(chance.gauss(50, 21.5), 2))
    note = note or f"n{chance.randrange(10**9)}"
    return separator.join((str(number), str(chance.randrange(1000)), _KINDS[number % 9], amount, note))


def _short_line(chance: random.Random, number: int) -> str:
    return f"{number},{chance.randrange(1000)}"


def _timed_line(chance: random.Random, number: int) -> str:
    return f"{number},{chance.randrange(1000)},{_time(chance)},n{chance.randrange(10**9)}"


def _xml(chance: random.Random, number: int) -> str:
    amount, note = round(chance.gauss(50, 21.5), 2), chance.randrange(10**9)
    inner = f"<id>{number}</id><device>{number % 1000}</device><kind>{_KINDS[number % 9]}</kind>"
    return f"<row>{inner}<amount>{amount}</amount><note>n{note}</note></row>"


def _xml_attributes(chance: random.Random, number: int) -> str:
    kind, amount = _KINDS[number % 9], round(chance.gauss(50, 21.5), 2)
    return f'<row id="{number}" device="{number % 1000}" kind="{kind}" amount="{amount}" note="n{number}"/>'


def _xml_nested(chance: random.Random, number: int) -> str:
    at = f"<at><x>{chance.random():.4f}</x><y>{chance.random():.4f}</y></at>"
    return f"<row><id>{number}</id><device><id>7</id><kind>{_KINDS[number % 9]}</kind>{at}</device><note>n</note></row>"


def _xml_arrays(chance: random.Random, number: int) -> str:
    tags = "".join(f"<tag>{_KINDS[chance.randrange(9)]}</tag>" for _ in range(4))
    return f"<row><id>{number}</id>{tags}<note>n{chance.randrange(10**9)}</note></row>"


_HEADER = "id,device,kind,amount,note\n"
_CSV, _XML = {"header": "true"}, {"rowTag": "row"}
_FORMAT = {"timestampFormat": "dd/MM/yyyy HH:mm:ss"}
SHAPES: Mapping[str, Shape] = {
    "json plain": Shape("json", _EVENT, _event),
    "json all columns text": Shape("json", _TEXTS, _event),
    "json nested": Shape("json", _NESTED, _point),
    "json arrays": Shape("json", "id BIGINT, `values` ARRAY<DOUBLE>, points ARRAY<STRUCT<x: INT, y: STRING>>", _arrays),
    "json map": Shape("json", "id BIGINT, device INT, tags MAP<STRING,STRING>", _attributes),
    "json object into text": Shape("json", "id BIGINT, device INT, payload STRING", _payload),
    "json times": Shape("json", _TIMED, _timed(_iso)),
    "json timestampFormat": Shape("json", _TIMED, _timed(_time), _FORMAT),
    "json dateFormat": Shape(
        "json", _DATED, _timed(lambda chance: _time(chance)[:10], "day"), {"dateFormat": "dd/MM/yyyy"}
    ),
    "json decimals": Shape("json", _EVENT.replace("DOUBLE", "DECIMAL(12,2)"), _event),
    "json misfits 1 in 2000": Shape("json", _EVENT, _one_in(2000, lambda c, n: _event(c, n, device='"none"'))),
    "json misfits 1 in 20": Shape("json", _EVENT, _one_in(20, lambda c, n: _event(c, n, device='"none"'))),
    "json fractions 1 in 2000": Shape("json", _EVENT, _one_in(2000, lambda c, n: _event(c, n, device="1.5"))),
    "json broken 1 in 2000": Shape("json", _EVENT, _one_in(2000, lambda c, n: _event(c, n)[:-9])),
    "json numbers or texts": Shape("json", _TEXTS, _one_in(3, lambda c, n: _event(c, n, amount='"x"'))),
    "json unknown fields": Shape("json", _EVENT, lambda c, n: _event(c, n, more=',"more":"x"')),
    "json unknown 1 in 2000": Shape("json", _EVENT, _one_in(2000, lambda c, n: _event(c, n, more=',"more":1'))),
    "json byte order mark": Shape("json", _EVENT, _event, head="\ufeff"),
    "json multiLine": Shape("json", _EVENT, _over_lines, {"multiLine": "true"}, "[\n", "\n]\n", ",\n"),
    "json long lines": Shape("json", _EVENT, lambda c, n: _event(c, n, note=f'"{"long note " * 200}"')),
    "json escapes": Shape("json", _EVENT, lambda c, n: _event(c, n, note=f'"a \\"b\\" \\\\ \\u00e9 {n}"')),
    "csv plain": Shape("csv", _EVENT, _line, _CSV, _HEADER),
    "csv no header": Shape("csv", _EVENT, _line),
    "csv quoted": Shape("csv", _EVENT, lambda c, n: _line(c, n, note=f'"a, b {n}"'), _CSV, _HEADER),
    "csv doubled quotes 1 in 500": Shape(
        "csv", _EVENT, _one_in(500, lambda c, n: _line(c, n, note='"a ""b"" c"'), _line), _CSV, _HEADER
    ),
    "csv doubled quotes, escape": Shape(
        "csv", _EVENT, lambda c, n: _line(c, n, note='"a ""b"" c"'), {**_CSV, "escape": '"'}, _HEADER
    ),
    "csv backslashes 1 in 500": Shape(
        "csv", _EVENT, _one_in(500, lambda c, n: _line(c, n, note='"a \\"b\\" c"'), _line), _CSV, _HEADER
    ),
    "csv multiLine": Shape(
        "csv", _EVENT, lambda c, n: _line(c, n, note=f'"a\nb {n}"'), {**_CSV, "multiLine": "true"}, _HEADER
    ),
    "csv tabs": Shape(
        "csv", _EVENT, lambda c, n: _line(c, n, separator="\t"), {**_CSV, "sep": "\t"}, _HEADER.replace(",", "\t")
    ),
    "csv nullValue": Shape(
        "csv", _EVENT, _one_in(3, lambda c, n: _line(c, n, note="NA"), _line), {**_CSV, "nullValue": "NA"}, _HEADER
    ),
    "csv misfits 1 in 2000": Shape(
        "csv", _EVENT, _one_in(2000, lambda c, n: _line(c, n, amount="none"), _line), _CSV, _HEADER
    ),
    "csv misfits 1 in 20": Shape(
        "csv", _EVENT, _one_in(20, lambda c, n: _line(c, n, amount="none"), _line), _CSV, _HEADER
    ),
    "csv unknown column": Shape("csv", _EVENT.partition(", note")[0], _line, _CSV, _HEADER),
    "csv short lines 1 in 2000": Shape("csv", _EVENT, _one_in(2000, _short_line, _line), _CSV, _HEADER),
    "csv timestampFormat": Shape("csv", _TIMED, _timed_line, {**_CSV, **_FORMAT}, "id,device,at,note\n"),
    "csv trimmed": Shape(
        "csv",
        _EVENT,
        lambda c, n: _line(c, n, separator=" , "),
        {**_CSV, "ignoreLeadingWhiteSpace": "true", "ignoreTrailingWhiteSpace": "true"},
        _HEADER,
    ),
    "xml plain": Shape("xml", _EVENT, _xml, _XML, "<rows>\n", "\n</rows>\n"),
    "xml attributes": Shape(
        "xml",
        "_id BIGINT, _device INT, _kind STRING, _amount DOUBLE, _note STRING",
        _xml_attributes,
        _XML,
        "<rows>\n",
        "\n</rows>\n",
    ),
    "xml nested": Shape("xml", _NESTED, _xml_nested, _XML, "<rows>\n", "\n</rows>\n"),
    "xml arrays": Shape(
        "xml", "id BIGINT, tag ARRAY<STRING>, note STRING", _xml_arrays, _XML, "<rows>\n", "\n</rows>\n"
    ),
    "xml entities": Shape(
        "xml", _EVENT, lambda c, n: _xml(c, n).replace("<note>", "<note>a &amp; b"), _XML, "<rows>\n", "\n</rows>\n"
    ),
    "xml misfits 1 in 20": Shape(
        "xml",
        _EVENT,
        _one_in(20, lambda c, n: _xml(c, n).replace("<device>", "<device>x"), _xml),
        _XML,
        "<rows>\n",
        "\n</rows>\n",
    ),
}


def write_shape(shape: Shape, path: Path, size: int) -> None:
    """Write a file of about *size* bytes; the same arguments always give the same file."""
    chance = random.Random(20260101)

    def rows() -> Iterator[str]:
        written, number = 0, 0
        while written < size:
            text = shape.row(chance, number)
            written, number = written + len(text) + 1, number + 1
            yield text

    path.write_text(shape.head + shape.between.join(rows()) + shape.tail + "\n", encoding="utf-8")


def ours(shape: Shape, path: Path) -> tuple[float, int]:
    """Seconds of processor time of our reader, and the number of rows."""
    size = path.stat().st_size
    plan = ReadPlan(
        shape.file_format,
        parse_struct(shape.columns),
        str(path.parent),
        rescued_column="_rescued_data",
        format_options=shape.options,
    )
    began = time.process_time()
    splits = [Split(str(path), size, 0, 0, size)]
    rows = sum(batch.num_rows for batch in read_splits(plan, splits))
    return time.process_time() - began, rows


class Sparks:
    """Spark's own readers in a session with one core."""

    def __init__(self) -> None:
        import psutil  # noqa: PLC0415 - only for Spark
        from pyspark.sql import SparkSession  # noqa: PLC0415 - the same

        builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
        self._session = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
        self._session.sparkContext.setLogLevel("ERROR")
        children = psutil.Process().children(recursive=True)
        self._jvm = next(child for child in children if child.name() == "java")

    def __call__(self, shape: Shape, path: Path) -> tuple[float, int]:
        """Seconds of processor time of the JVM, and the number of rows."""
        reader = self._session.read.schema(shape.columns).options(**shape.options).format(shape.file_format)
        frame = reader.option("timeZone", "UTC").load(str(path))
        before = self._jvm.cpu_times()
        frame.write.format("noop").mode("overwrite").save()
        after = self._jvm.cpu_times()
        return after.user + after.system - before.user - before.system, frame.count()


def rate(read: Callable[[Shape, Path], tuple[float, int]], shape: Shape, path: Path, rounds: int) -> tuple[float, int]:
    """The median of megabytes for each second, and the number of rows."""
    found = [read(shape, path) for _ in range(rounds + 1)][1:]
    return path.stat().st_size / 1e6 / statistics.median(seconds for seconds, _ in found), found[0][1]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("shapes", nargs="*", help="parts of the names of shapes; all if there are none")
    parser.add_argument("--spark", action="store_true", help="measure Spark's readers too")
    parser.add_argument("--megabytes", type=float, default=16)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    sparks = Sparks() if given.spark else None
    print("| shape | MB/s | Spark's reader | ratio |" if sparks else "| shape | MB/s |")
    print("|---|---|---|---|" if sparks else "|---|---|")
    with TemporaryDirectory() as text:
        for name, shape in SHAPES.items():
            if given.shapes and not any(part in name for part in given.shapes):
                continue
            path = Path(text, f"a.{shape.file_format}")
            write_shape(shape, path, int(given.megabytes * 1e6))
            found, rows = rate(ours, shape, path, given.rounds)
            cells = [name, f"{found:.1f}"]
            if sparks:
                theirs, others = rate(sparks, shape, path, given.rounds)
                cells += [f"{theirs:.1f}", f"{found / theirs:.2f}"]
                if rows != others:
                    print(f"{name}: {rows} rows, and {others} of Spark's", file=sys.stderr)
            print(f"| {' | '.join(cells)} |", flush=True)
            path.unlink()


if __name__ == "__main__":
    main()
