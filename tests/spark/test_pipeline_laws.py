"""Laws: whatever was done to a pipeline, its tables are those of a computation from the start; then nothing is to do.

`make campaign ARGS="--only sequences"` tries hundreds of sequences.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from itertools import count
from pathlib import Path
from threading import Event

import pytest
from campaign.oracle import snapshot
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from tests.tiers import ASKED, EVERYTHING, LONGEST_S, examples

from headrace.events.types import BatchDone
from headrace.model.outcome import UpdateState
from headrace.testing import Crashed, Failpoint

pytestmark = [pytest.mark.spark, pytest.mark.timeout(LONGEST_S)]

# Without a number from outside: the same few each time, and no time for making a failing one smaller. Each example runs
# some ten updates, so `make test` has only those that are written below.
LAW = settings(
    max_examples=examples(few=1, many=4),
    derandomize=ASKED is None,
    deadline=None,
    database=None,
    print_blob=True,
    phases=[
        Phase.explicit,
        *([Phase.generate] if ASKED or EVERYTHING else []),
        *([Phase.shrink] if ASKED else []),
    ],
    suppress_health_check=list(HealthCheck),
)
# What changes from one version of the code to the next, round and round: a rule, and a query.
VERSIONS = ((3, 1), (4, 1), (4, 10), (3, 10))
CODE = """
@dp.table
def bronze():
    return spark.readStream.schema("id INT").option("maxFilesPerTrigger", 1).json({landing!r})

@dp.table
@dp.expect("small", "id < 20")
@dp.expect_or_drop("not a fifth", "id % 5 <> 0")
@dp.expect_or_quarantine("chosen", "id % {modulus} <> 0")
def silver():
    return spark.readStream.table("bronze").selectExpr("id", "id * {factor} AS value")

@dp.materialized_view
@dp.expect_or_quarantine("not the first", "remainder > 0")
def sums():
    return spark.sql("SELECT id % 7 AS remainder, sum(value) AS value FROM silver GROUP BY 1")
"""
IN_A_BATCH = [
    Failpoint.BEFORE_QUARANTINE,
    Failpoint.QUARANTINED,
    Failpoint.BEFORE_WRITE,
    Failpoint.WRITTEN,
    Failpoint.COUNTED,
]
IN_A_RESET = [Failpoint.RESET_STARTED, Failpoint.RESET_QUARANTINE_CLEARED, Failpoint.RESET_CLEARED]


class Story:
    """A pipeline that things are done to, and what its streaming table should have."""

    def __init__(self, make):
        self.pipeline = make(files={"transformations/none.py": ""})
        self.landed = []
        self.version = 0
        # The ids that the table has taken, with the version of the code that was in force.
        self.taken = []
        # Those of the newest epoch, whose rows the event log counts.
        self.counted = []
        self._write_code()
        self.land(2)

    def land(self, rows):
        first = len(self.landed)
        self.landed += range(first, first + rows)
        self.pipeline.land(f"landing/{first:04}.json", [{"id": number} for number in self.landed[first:]])

    def run(self):
        result = self.pipeline.run()
        assert result.state is UpdateState.COMPLETED, result.outcome.error
        self._take(set(self.landed) - {number for number, _ in self.taken})
        self.check()

    def stop(self, batches):
        stop, left = Event(), count(batches, -1)

        def stop_in_time(event):
            if isinstance(event, BatchDone) and not next(left):
                stop.set()

        self.pipeline.project.run(stop=stop, on_event=stop_in_time)

    def reset_checkpoint(self, start, rows):
        self.run()
        self.land(rows)
        result = self.pipeline.run(reset_checkpoint=[f"silver={start}"])
        assert result.state is UpdateState.COMPLETED, result.outcome.error
        self.counted = []
        # Each row that is read again is there again.
        self._take(self.landed if start == "earliest" else self.landed[-rows:])
        self.check()

    def crash(self, point, skip):
        self._dies(point, skip)

    def refresh(self, name):
        if self._made("sums"):
            assert self.pipeline.run(name).state is UpdateState.COMPLETED

    def full_refresh(self, name):
        if self._made("sums"):
            if name != "sums":
                self._clear()
            names = ["bronze", "silver"] if name == "bronze" else [name]
            # One by one: a stream cannot go on when the table that it reads was cleared, until it is cleared, too.
            for one in names:
                assert self.pipeline.run(full_refresh=[one]).state is UpdateState.COMPLETED

    def full_refresh_all(self):
        self._clear()
        assert self.pipeline.run(full_refresh_all=True).state is UpdateState.COMPLETED

    def crash_in_full_refresh(self, point, skip):
        if self._made("sums"):
            # Announced for every table before the first is cleared.
            self._clear()
            self._dies(point, skip, full_refresh_all=True)

    def change(self):
        # What is there is taken by the code that is there.
        self.run()
        self.version += 1
        self._write_code()

    def check(self):
        plan = self.pipeline.plan()
        assert plan.empty, plan.describe()
        found = snapshot(self.pipeline.folder, {"sums"})
        kept, aside, _, sums = self._expected(self.taken)
        counted = tuple(n if isinstance(n, int) else len(n) for n in self._expected(self.counted)[:3])
        assert sorted(row["id"] for row in found.tables["bronze"]) == self.landed
        assert pairs(found, "silver") == (kept, aside)
        assert pairs(found, "sums") == ([pair for pair in sums if pair[0] > 0], [pair for pair in sums if pair[0] == 0])
        counts = found.counts["silver"]
        assert (counts.rows_written, counts.rows_quarantined, counts.rows_dropped) == counted
        assert found.counted_twice == ()

    def _take(self, numbers):
        new = [(number, self.version) for number in numbers]
        self.taken += new
        self.counted += new

    def _clear(self):
        self.taken = []
        self.counted = []

    def _expected(self, taken):
        kept, aside, dropped, sums = [], [], 0, Counter()
        for number, version in sorted(taken):
            modulus, factor = VERSIONS[version % len(VERSIONS)]
            row = (number, number * factor)
            if number % modulus == 0:
                aside.append(row)
            elif number % 5 == 0:
                dropped += 1
            else:
                kept.append(row)
                sums[number % 7] += row[1]
        return kept, aside, dropped, sorted(sums.items())

    def _dies(self, point, skip, **options):
        # A sequence may end an update before it comes to the point.
        with suppress(Crashed, AssertionError):
            self.pipeline.crash_at(point, skip=skip).run(**options)
        self.pipeline.restart()

    def _made(self, name):
        return (self.pipeline.folder / "storage" / "tables" / "default" / name / "_delta_log").is_dir()

    def _write_code(self):
        modulus, factor = VERSIONS[self.version % len(VERSIONS)]
        landing = str(Path(self.pipeline.folder) / "landing")
        head = "from headrace import pipelines as dp\n"
        text = CODE.format(landing=landing, modulus=modulus, factor=factor)
        self.pipeline.write("transformations/project.py", head + text)


def pairs(found, name):
    """The rows of a table and those set aside, both columns of each."""
    aside = [tuple(row["row"].values()) for row in found.tables[f"{name}_quarantine"]]
    return sorted(tuple(row.values()) for row in found.tables[name]), sorted(aside)


def step(name, *values):
    return st.tuples(st.just(name), st.tuples(*values))


STEPS = st.one_of(
    step("land", st.integers(1, 6)),
    step("run"),
    step("crash", st.sampled_from(IN_A_BATCH), st.integers(0, 2)),
    step("refresh", st.sampled_from(["bronze", "silver", "sums"])),
    step("full_refresh", st.sampled_from(["bronze", "silver", "sums"])),
    step("stop", st.integers(0, 4)),
    step("reset_checkpoint", st.sampled_from(["earliest", "latest"]), st.integers(1, 3)),
    step("full_refresh_all"),
    step("crash_in_full_refresh", st.sampled_from([*IN_A_RESET, *IN_A_BATCH]), st.integers(0, 2)),
    step("change"),
)


@pytest.mark.long(
    guard=(
        "tests/spark/test_store_laws.py::test_no_row_is_lost_silently_when_a_store_is_restored_torn_or_deleted",
        "tests/spark/test_refresh.py::test_a_full_refresh_lists_the_cleared_rows_and_recomputes_them",
        "tests/spark/test_exactly_once.py::test_the_next_update_finishes_a_crashed_full_refresh",
        "tests/spark/test_changed_definitions.py::test_no_code_change_deletes_rows",
    )
)
@LAW
@given(st.lists(STEPS, min_size=1, max_size=12 if ASKED else 3))
@example([("run", ()), ("crash_in_full_refresh", (Failpoint.RESET_QUARANTINE_CLEARED, 0))])
@example([("crash", (Failpoint.WRITTEN, 0)), ("change", ()), ("land", (5,)), ("crash", (Failpoint.QUARANTINED, 0))])
def test_any_sequence_of_operations_ends_with_the_tables_of_a_recomputation(shared_project, steps):
    story = Story(shared_project)

    for name, values in steps:
        getattr(story, name)(*values)

    story.run()


FILES = {
    "one": "dp.create_streaming_table('events')\n\n@dp.append_flow(target='events')\ndef north():\n"
    "    return spark.readStream.table('landed')\n",
    "two": "@dp.append_flow(target='events')\ndef south():\n"
    "    return spark.readStream.table('landed').where('id > 1')\n",
    "three": "@dp.materialized_view\ndef total():\n    return spark.read.table('seen').groupBy().count()\n",
    "four": "@dp.temporary_view\ndef seen():\n    return spark.read.table('events').where('id > 0')\n",
    "five": "@dp.table\ndef landed():\n    return spark.readStream.schema('id INT').json({landing!r})\n",
}


@settings(LAW, max_examples=examples(few=2, many=4), phases=[Phase.generate])
@given(st.permutations(list(FILES)))
def test_the_graph_does_not_depend_on_the_order_of_the_files(shared_project, order):
    def described(names):
        files = {f"transformations/{place}.py": name for place, name in enumerate(names)}
        pipeline = shared_project(files=dict.fromkeys(files, ""))
        (pipeline.folder / "landing").mkdir()
        for path, name in files.items():
            text = FILES[name].replace("{landing!r}", repr(str(pipeline.folder / "landing")))
            pipeline.write(path, f"from headrace import pipelines as dp\n{text}")
        graph = pipeline.project.validate()
        flows = {flow.name: (str(flow.target), flow.mode, flow.analysis.inputs) for flow in graph.flows}
        return flows, {str(dataset.name): (dataset.kind, dataset.schema) for dataset in graph.datasets}

    assert described(order) == described(list(FILES))
