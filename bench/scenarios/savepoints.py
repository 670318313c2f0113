"""A savepoint of many streaming tables on a local disk: seconds and bytes to make it, and seconds to plan its restore.

The rows of the command line are the number of tables. Files that several names link to count once. Making the tables
takes two updates, which are kept for later rounds.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from scenario import Contestant, Scenario, Step, environment, program

TABLES, ROWS_A_FILE = 100, 1_000
_PIPELINE = """\
from pathlib import Path

from headrace import pipelines as dp

LANDING = Path(__file__).parents[2] / "landing"


def define(number):
    @dp.table(name=f"table_{{number:04}}")
    @dp.expect("has an id", "id IS NOT NULL")
    def table():
        return spark.readStream.schema("id BIGINT, amount DOUBLE, name STRING").json(str(LANDING))


for number in range({tables}):
    define(number)
"""
_NAME = "bench"
# The project with a storage after one update; and the same with a savepoint and a second update.
_SHOP, _LATER = "shop", "later"
_BYTES_BEFORE = "bytes-before.txt"


def disk_bytes(folder: Path) -> int:
    """The space that the files below a folder take on the disk; a file with several names counts once."""
    return sum(
        {
            (found.st_dev, found.st_ino): 512 * found.st_blocks
            for path in (folder, *folder.rglob("*"))
            for found in (path.lstat(),)
        }.values()
    )


def _land(folder: Path, number: int) -> None:
    first = number * ROWS_A_FILE
    rows = ({"id": key, "amount": key * 1.5, "name": f"name {key}"} for key in range(first, first + ROWS_A_FILE))
    folder.mkdir(exist_ok=True)
    (folder / f"{number}.json").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")


def _headrace(*words: str) -> None:
    subprocess.run([program("headrace"), *words], check=True, env=environment(), stdout=subprocess.DEVNULL)


def _make_data(folder: Path, tables: int) -> None:
    if (folder / "_READY").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    shop, later = folder / _SHOP, folder / _LATER
    (shop / "transformations").mkdir(parents=True)
    (shop / "pipeline.yml").write_text("name: savepoints\n", encoding="utf-8")
    (shop / "transformations" / "tables.py").write_text(_PIPELINE.format(tables=tables), encoding="utf-8")
    _land(folder / "landing", 0)
    _headrace("--project", str(shop), "run")
    subprocess.run(["cp", "-a", shop, later], check=True)
    _headrace("--project", str(later), "savepoint", "create", _NAME)
    _land(folder / "landing", 1)
    _headrace("--project", str(later), "run")
    (folder / "_READY").touch()


def _prepare(work: Path, data: Path) -> None:
    for name in (_SHOP, _LATER):
        # It keeps links, unlike Python's own.
        subprocess.run(["cp", "-a", data / name, work / name], check=True)
    (work / _BYTES_BEFORE).write_text(str(disk_bytes(work / _SHOP)), encoding="utf-8")


def _savepoint(_work: Path, _data: Path) -> Sequence[Step]:
    command = (program("headrace"), "--project")
    return (
        Step("make it", (*command, _SHOP, "savepoint", "create", _NAME)),
        Step("MB on the disk", (sys.executable, __file__), cold=False),
        Step("dry run of a restore", (*command, _LATER, "savepoint", "restore", _NAME, "--dry-run")),
    )


def _copy(_work: Path, _data: Path) -> Sequence[Step]:
    return (
        Step("make it", ("cp", "-a", f"{_SHOP}/storage", f"{_SHOP}/backup")),
        Step("MB on the disk", (sys.executable, __file__), cold=False),
    )


def _saved_tables(work: Path) -> int:
    (manifest,) = (work / _SHOP / "storage" / "savepoints").glob("sp-*/manifest.json")
    return len(json.loads(manifest.read_text(encoding="utf-8"))["tables"])


def _copied_tables(work: Path) -> int:
    return sum(1 for _ in _folders(work / _SHOP / "backup" / "tables" / "default"))


def _folders(folder: Path) -> Iterator[str]:
    return (entry.name for entry in os.scandir(folder) if entry.is_dir())


def _contestant(name: str, steps: Callable[[Path, Path], Sequence[Step]], tables: Callable[[Path], int]) -> Contestant:
    return Contestant(name, _prepare, steps, tables)


SCENARIO = Scenario(
    about="a savepoint of streaming tables with a commit each, and a copy of their storage; the rows are tables",
    rows=TABLES,
    make_data=_make_data,
    expected_rows=lambda tables: tables,
    contestants=(_contestant("savepoint", _savepoint, _saved_tables), _contestant("cp -a", _copy, _copied_tables)),
    base="savepoint",
)


if __name__ == "__main__":
    before = int(Path(_BYTES_BEFORE).read_text(encoding="utf-8"))
    print(f"measured {(disk_bytes(Path(_SHOP)) - before) / 1e6:.3f}")
