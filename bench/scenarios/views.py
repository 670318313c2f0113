"""Materialized views after 1 % of their input changed: what changed against all rows, in a warm session.

The views are like those of TPC-H and TPC-DI, over generated data. To compare both ways view by view, and each result
with a recompute, run in an empty folder, with this one's parent in PYTHONPATH:
`python bench/scenarios/views.py compare ROWS SET [VIEW,VIEW]`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from scenario import Contestant, Scenario, Step
from view_sets import SETS, ViewSet

_FULL = "_full"
_APPENDED, _UPDATED = "1 % more rows", "1 % of the rows updated"
_HEADER = """\
from headrace import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()
"""
_TABLE = """

@dp.temporary_view
def {name}():
    return spark.read.format("delta").load("{folder}/{name}")
"""
_VIEW = '''

@dp.materialized_view(name="{name}", refresh_policy="{policy}")
def {name}():
    return spark.sql("""{query}""")
'''


@dataclass(frozen=True)
class Refreshed:
    """One refresh of a view.

    Attributes:
        view: its name.
        change: what had changed.
        seconds: how long its flow took.
        way: how it was refreshed.
    """

    view: str
    change: str
    seconds: float
    way: str


class Bench:
    """A project of views over generated tables.

    Args:
        chosen: the set of views.
        rows: the rows of each of its large tables.
        policies: the policies with which each view is declared, and the end of its name under each.
        only: the views to refresh; all without any.
    """

    def __init__(self, chosen: ViewSet, rows: int, policies: Mapping[str, str], only: Sequence[str] = ()) -> None:
        from headrace import spark_session  # noqa: PLC0415 - the runner imports this module too

        self._set, self._rows = chosen, rows
        self._views = [name for name in chosen.views if not only or name in only]
        self._work = Path.cwd()
        (self._work / "transformations").mkdir()
        settings = "name: views\nmax_parallel_flows: 1\nconfiguration:\n  headrace.views.auto_refresh: cheaper\n"
        (self._work / "pipeline.yml").write_text(settings, encoding="utf-8")
        tables = "".join(_TABLE.format(name=name, folder=self._work) for name in chosen.tables)
        views = "".join(
            _VIEW.format(name=name + ending, policy=policy, query=chosen.views[name])
            for name in self._views
            for ending, policy in policies.items()
        )
        (self._work / "transformations" / "views.py").write_text(_HEADER + tables + views, encoding="utf-8")
        self._spark = spark_session()
        for name, table in chosen.tables.items():
            properties = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
            self._spark.sql(f"CREATE TABLE delta.`{self._work}/{name}` ({table.columns}) USING delta {properties}")
            self._append(name, 0, table.rows(rows))

    def append(self, number: int) -> None:
        """Append 1 % more rows to the large tables."""
        for name in self._set.large:
            every = self._set.tables[name].rows(self._rows)
            self._append(name, every + number * (every // 100), every // 100)

    def update(self, number: int) -> None:
        """Update 1 % of the rows of the first large table."""
        name, assignment, key = self._set.update
        # Neighbouring rows, as those of one day are.
        rows = self._set.tables[name].rows(self._rows)
        first = rows // 2 + number * (rows // 100)
        between = f"{key} BETWEEN {first} AND {first + rows // 100 - 1}"
        self._spark.sql(f"UPDATE delta.`{self._work}/{name}` SET {assignment} WHERE {between}").collect()

    def refresh(self, change: str, ending: str) -> Iterator[Refreshed]:
        """Refresh all views of one policy."""
        from headrace import Project  # noqa: PLC0415 - the same

        outcome: Any = Project.open().run(refresh=[name + ending for name in self._views]).to_json()
        if outcome["state"] != "COMPLETED":
            raise SystemExit(f"the update failed: {outcome['error']}")
        for flow in outcome["flows"]:
            if flow["state"] == "COMPLETED":
                name = str(flow["flow"])
                way = str(flow.get("refresh")) + (
                    "" if flow.get("refresh") != "full" else f" ({flow['refresh_reason']})"
                )
                yield Refreshed(name.removesuffix(_FULL), change, float(flow["duration_s"]), way)

    def differing(self, ending: str) -> list[str]:
        """The views that differ from a recompute, which another view has; none, if all is right."""

        def rows(name: str) -> Any:
            return self._spark.read.format("delta").load(f"{self._work}/storage/tables/default/{name}")

        wrong = []
        for name in self._views:
            one, other = rows(name), rows(name + ending)
            if not one.exceptAll(other).isEmpty() or not other.exceptAll(one).isEmpty():
                wrong.append(name)
        return wrong

    def _append(self, name: str, first: int, number: int) -> None:
        table = self._set.tables[name]
        rows = self._spark.range(first, first + number).selectExpr(*table.expressions(self._rows))
        rows.write.format("delta").mode("append").save(f"{self._work}/{name}")


def compare(rows: int, chosen: ViewSet, only: Sequence[str] = ()) -> None:
    """Refresh each view by what changed after each change, and from all rows at last; print a table."""
    bench = Bench(chosen, rows, {"": "incremental", _FULL: "full"}, only)
    # The first refresh of each kind compiles its code, so it is not counted; the first of all is one of all rows too.
    list(bench.refresh("first", ""))
    partial: list[Refreshed] = []
    for number in range(2):
        for change, apply in ((_APPENDED, bench.append), (_UPDATED, bench.update)):
            apply(number)
            found = list(bench.refresh(change, ""))
            partial += found if number else []
    full = list(bench.refresh("", _FULL))
    print_table(full, partial)
    print(f"\nviews that differ from a recompute: {', '.join(bench.differing(_FULL)) or 'none'}")


def print_table(full: Sequence[Refreshed], partial: Sequence[Refreshed]) -> None:
    """Print the seconds of both ways and their ratio for each view and change, and what they show as a whole."""
    print("| view | change | all rows s | what changed s | ratio | way |\n| --- | --- | --- | --- | --- | --- |")
    ratios: list[tuple[float, bool]] = []
    seconds = {one.view: one.seconds for one in full}
    for one in partial:
        slow = seconds[one.view]
        ratios.append((slow / one.seconds, not one.way.startswith("full")))
        print(f"| {one.view} | {one.change} | {slow:.2f} | {one.seconds:.2f} | {slow / one.seconds:.1f} | {one.way} |")
    parts = sum(is_partial for _, is_partial in ratios)
    print(f"\nincremental: {parts} of {len(ratios)} ({parts / len(ratios):.0%})")
    print(f"times faster: median {median(ratio for ratio, _ in ratios):.1f}", end=", ")
    print(f"worst {min(ratio for ratio, _ in ratios):.2f}, best {max(ratio for ratio, _ in ratios):.1f}")


def measured(policy: str, rows: int) -> Iterator[Refreshed]:
    """Refreshes of the views of the first set under one policy, after each change."""
    bench = Bench(SETS["tpch"], rows, {"": policy})
    list(bench.refresh("first", ""))
    for number in range(2):
        bench.append(number)
        yield from bench.refresh(_APPENDED, "")
        bench.update(number)
        yield from bench.refresh(_UPDATED, "")


def _steps(policy: str) -> Callable[[Path, Path], Sequence[Step]]:
    def steps(_work: Path, data: Path) -> Sequence[Step]:
        rows = (data / "rows").read_text(encoding="utf-8")
        return (Step("", (sys.executable, __file__, policy, rows), cold=False),)

    return steps


def _make_data(folder: Path, rows: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rows").write_text(str(rows), encoding="utf-8")


def _rows(work: Path) -> int:
    from deltalake import DeltaTable  # noqa: PLC0415 - measured processes import this module too

    return int(DeltaTable(str(work / "storage" / "tables" / "default" / "q06_total")).count())


SCENARIO = Scenario(
    about="views like those of TPC-H, refreshed after 1 % of their rows changed, in a warm session",
    rows=200_000,
    make_data=_make_data,
    expected_rows=lambda _rows: 1,
    contestants=tuple(
        Contestant(name, prepare=lambda _work, _data: None, steps=_steps(policy), rows=_rows)
        for name, policy in (("all rows", "full"), ("headrace", "auto"), ("what changed", "incremental"))
    ),
)


if __name__ == "__main__":
    if sys.argv[1] == "compare":
        compare(int(sys.argv[2]), SETS[sys.argv[3]], sys.argv[4].split(",") if len(sys.argv) > 4 else ())
    else:
        seconds: dict[str, list[float]] = {}
        for one in measured(sys.argv[1], int(sys.argv[2])):
            seconds.setdefault(f"{one.view}, {one.change}", []).append(one.seconds)
        for what, found in seconds.items():
            print(f"measured {median(found)} {what}")
