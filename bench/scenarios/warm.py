"""Verbs of the command line in the worker of the project, and in a JVM of their own: seconds from start to exit.

The pipeline has run and nothing is new, so that nothing is computed. Run by hand with
`python bench/scenarios/warm.py CONTESTANT REPEATS`, in the folder of a project.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from scenario import Contestant, Scenario, Step, environment, program

ROWS = 10_000
REPEATS = 2
_WARM, _COLD = "headrace", "headrace --cold"
_QUERY = "SELECT kind, count(*) AS events, sum(amount) AS amount FROM silver GROUP BY kind ORDER BY kind"
_VERBS: dict[str, tuple[str, ...]] = {
    "plan": ("plan",),
    "sql": ("sql", _QUERY),
    "validate": ("validate",),
    "preview": ("preview", "gold"),
    "explain": ("explain", "silver"),
    "run, nothing new": ("run",),
}
_PIPELINE = """\
from headrace import pipelines as dp
from pyspark.sql import functions as F


@dp.table
def bronze():
    return spark.readStream.schema("id BIGINT, kind STRING, amount DOUBLE").json("landing")


@dp.table
@dp.expect_or_drop("positive", "amount > 0")
def silver():
    return dp.read_stream("bronze").withColumn("cents", F.round(F.col("amount") * 100))


@dp.materialized_view
def gold():
    return dp.read("silver").groupBy("kind").agg(F.count("*").alias("events"), F.sum("amount").alias("amount"))
"""


def _call(*words: str) -> float:
    began = time.perf_counter()
    subprocess.run([program("headrace"), *words], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def _prepare(work: Path, data: Path) -> None:
    (work / "transformations").mkdir()
    (work / "pipeline.yml").write_text("name: warm\n", encoding="utf-8")
    (work / "transformations" / "pipeline.py").write_text(_PIPELINE, encoding="utf-8")
    (work / "landing").symlink_to(data / "landing")
    command = [program("headrace"), "--project", str(work), "run"]
    subprocess.run(command, check=True, env=environment(), cwd=work, stdout=subprocess.DEVNULL)


def _make_data(folder: Path, rows: int) -> None:
    (folder / "landing").mkdir(parents=True, exist_ok=True)
    lines = (json.dumps({"id": row, "kind": f"kind {row % 7}", "amount": 1 + row % 100}) for row in range(rows))
    (folder / "landing" / "events.json").write_text("\n".join(lines), encoding="utf-8")


def _steps(name: str) -> Callable[[Path, Path], Sequence[Step]]:
    command = (sys.executable, __file__, name, str(REPEATS))
    return lambda _work, _data: (Step("", command, cold=False),)


def _rows(work: Path) -> int:
    from deltalake import DeltaTable  # noqa: PLC0415 - measured processes import this module too

    return int(DeltaTable(str(work / "storage" / "tables" / "default" / "silver")).count())


SCENARIO = Scenario(
    about=f"verbs of a project with nothing new to compute, {REPEATS} times each, from start to exit",
    rows=ROWS,
    make_data=_make_data,
    expected_rows=lambda rows: rows,
    contestants=tuple(Contestant(name, prepare=_prepare, steps=_steps(name), rows=_rows) for name in (_WARM, _COLD)),
    repeats=1,
)


def _measure(name: str, repeats: int) -> None:
    mode = ("--cold",) if name == _COLD else ()
    if name == _WARM:
        print(f"measured {_call('worker', 'start')} start of the worker")
    try:
        for verb, words in _VERBS.items():
            for _ in range(repeats):
                print(f"measured {_call(*words, *mode)} {verb}")
    finally:
        if name == _WARM:
            _call("worker", "stop")


if __name__ == "__main__":
    _measure(sys.argv[1], int(sys.argv[2]))
