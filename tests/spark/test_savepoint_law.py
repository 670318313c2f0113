"""The law of savepoints: restore, then run with the same code and sources, equals having run on.

Each of six shapes of flows reads each of three sources, itself or through another table. Between the savepoint and its
restore, seeded sequences add rows, vacuum, clear and rename tables, and add a flow. `make campaign ARGS="--only
savepoint_law"` tries more sequences.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import yaml
from tests.event_sources import KINDS, source_of
from tests.tiers import ASKED, LONGEST_S, examples

from headrace.model.outcome import UpdateState
from headrace.project.savepoints.create import SavepointRequest
from headrace.project.savepoints.savepoints import RestoreRequest

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(LONGEST_S),
    pytest.mark.long(
        guard="tests/spark/test_savepoints.py::test_an_interrupted_restore_is_finished_by_the_next_update"
    ),
]
BRONZE = """
    @dp.table
    def bronze():
        return events()

    def arriving():
        return spark.readStream.table("bronze")

    def arrived():
        return spark.read.table("bronze")
"""
DIRECT = """
    def arriving():
        return events()

    def arrived():
        return all_events()
"""
# Append, stateful, change data capture of both types, complete and materialized, once.
SHAPES = """
    @dp.table
    @dp.expect_or_quarantine("positive", "n > 0")
    def appended():
        return arriving()

    @dp.table
    def distinct_ids():
        return arriving().withWatermark("at", "1 day").dropDuplicates(["id"]).select("id")

    @dp.temporary_view
    def changes():
        return arriving()

    dp.create_streaming_table("current")
    dp.create_auto_cdc_flow("current", "changes", keys=["id"], sequence_by="n")
    dp.create_streaming_table("history")
    dp.create_auto_cdc_flow("history", "changes", keys=["id"], sequence_by="n", stored_as_scd_type=2)

    @dp.table
    def totals():
        return arriving().groupBy("id").agg(F.sum("n").alias("n"))

    @dp.materialized_view
    def largest():
        return arrived().groupBy().agg(F.max("n").alias("n"))

    dp.create_streaming_table("started")

    @dp.append_flow(target="started", once=True)
    def start():
        return arrived()
"""
LATER = """
from headrace import pipelines as dp

dp.create_streaming_table("later")

@dp.append_flow(target="later", once=True)
def first_rows():
    return spark.range(3)
"""
TABLES = ("appended", "distinct_ids", "current", "history", "totals", "largest", "started")
QUARANTINE = "appended_quarantine"
# Those that a full refresh reads completely again from each of the sources.
CLEARED = ("distinct_ids", "current", "history", "totals")
REWRITTEN = ("current", "history", "totals", "largest")
RENAMED = "renamed"
IDS, MOST_ROWS = 6, 5
ITSELF, ANOTHER_TABLE = "itself", "another table"
# Each source once; a campaign has each of them read in both ways.
WAYS = (
    [(kind, through) for kind in KINDS for through in (ITSELF, ANOTHER_TABLE)]
    if ASKED
    else [(kind, (ITSELF, ANOTHER_TABLE)[number % 2]) for number, kind in enumerate(KINDS)]
)


class Sequence:
    """One pipeline, what was done to it, and what its tables had at each of its savepoints."""

    def __init__(self, pipeline, source, rng, names):
        self.pipeline, self.source, self.rng = pipeline, source, rng
        self.names = {name: name for name in names}
        self.done = []
        self.saved = {}
        # Each number once: two events of a key never have the same place in the order.
        self.numbers = rng.sample(range(-20, 400), 400)

    @property
    def savepoints(self):
        return self.pipeline.project.savepoints

    def contents(self):
        """The rows of all tables, by their first names."""
        found = {first: list(self.pipeline.rows(name)) for first, name in self.names.items()}
        quarantine = self.pipeline.rows(QUARANTINE.replace("appended", self.names["appended"]))
        return {**found, QUARANTINE: sorted((row["row"]["id"], row["row"]["n"]) for row in quarantine)}

    def update(self, **options):
        outcome = self.pipeline.run(**options).outcome
        assert outcome.state is UpdateState.COMPLETED, (self.done, outcome.flows)

    def batch(self):
        rows = [(self.rng.randrange(IDS), self.numbers.pop()) for _ in range(self.rng.randint(1, MOST_ROWS))]
        self.done.append(f"batch {rows}")
        self.source.add(self.pipeline, rows)
        self.update()

    def save(self):
        name = f"savepoint-{len(self.saved)}"
        self.done.append(name)
        self.savepoints.create(SavepointRequest(name))
        self.saved[name] = self.contents()

    def vacuum(self):
        table = self.rng.choice(REWRITTEN)
        self.done.append(f"vacuum {table}")
        session = self.pipeline.project.session()
        session.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        path = f"{self.pipeline.settings.layout.root}/tables/default/{table}"
        session.sql(f"VACUUM delta.`{path}` RETAIN 0 HOURS")

    def clear(self):
        table = self.rng.choice(CLEARED)
        self.done.append(f"full refresh of {table}")
        self.update(full_refresh=[table], accept_data_loss=True)

    def rename(self):
        if self.names["appended"] == RENAMED:
            return
        self.done.append("rename")
        code, settings = (self.pipeline.folder / name for name in ("transformations/project.py", "pipeline.yml"))
        code.write_text(code.read_text().replace("def appended(", f"def {RENAMED}("))
        known = yaml.safe_load(settings.read_text())
        settings.write_text(yaml.safe_dump({**known, "renames": {"datasets": {"appended": RENAMED}}}))
        landed = self.pipeline._landed
        self.pipeline = type(self.pipeline)(self.pipeline.folder, Path(self.pipeline.settings.storage), {})
        self.pipeline._landed = landed
        self.names["appended"] = RENAMED
        self.update()

    def add_flow(self):
        if "later" in self.names:
            return
        self.done.append("another flow")
        self.pipeline.write("transformations/later.py", LATER)
        self.names["later"] = "later"
        self.update()

    def restore(self):
        """Take the pipeline back, perhaps there and back before it, and let it run on."""
        name = self.rng.choice(sorted(self.saved))
        self.done.append(f"restore {name}")
        after = self.contents()
        restored = self.savepoints.restore(RestoreRequest(name, accept_data_loss=True))
        self.expect(self.saved[name])
        if self.rng.random() < 1 / 3:
            self.done.append("undo the restore, and restore")
            self.savepoints.restore(RestoreRequest(restored.before.id))
            self.expect(after)
            self.savepoints.restore(RestoreRequest(name, accept_data_loss=True))
            self.expect(self.saved[name])
        self.update()
        self.expect(after)

    def expect(self, expected):
        found = self.contents()
        assert {name: found[name] for name in expected} == expected, self.done


@pytest.mark.parametrize(("kind", "through"), WAYS)
def test_restored_and_run_again_equals_having_run_on(kind, through, project, request, tmp_path):
    seed = request.config.getoption("--hypothesis-seed") or "31"
    rng = random.Random(f"{seed} {kind} {through}")
    source = source_of(kind, request, tmp_path)
    head, names = (DIRECT, TABLES) if through == ITSELF else (BRONZE, ("bronze", *TABLES))
    sequence = Sequence(project(source.code + head + SHAPES), source, rng, names)
    sequence.batch()

    for _ in range(examples(few=1, many=1)):
        sequence.save()
        later = [sequence.batch] * rng.randint(1, 2)
        later += rng.sample([sequence.vacuum, sequence.clear, sequence.rename, sequence.add_flow], rng.randint(0, 2))
        rng.shuffle(later)
        for step in later:
            step()
        sequence.restore()
