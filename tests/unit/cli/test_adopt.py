"""What `adopt` and `release` ask of a project, and what they print of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.checkpoints.foreign import ForeignCheckpoint
from headrace.cli.main import call
from headrace.delta_log.tables import TableState
from headrace.errors import PipelineError
from headrace.model.schema import Schema
from headrace.project.adoption.adoption_plan import AdoptionPlan, AdoptRequest
from headrace.project.adoption.job_comparison import FlowAdoption
from headrace.project.adoption.release_plan import ReleasePlan, ReleaseRequest
from headrace.project.adoption.spark_pipelines import Found
from headrace.storage.adopted_tables import Consent, Handover, TableRecord

TABLE = TableState("/data/orders", "t-1", 41, Schema(()))
JOB = ForeignCheckpoint(Path("/chk/orders"), "q-1", 7, 6, ())
PLAN = AdoptionPlan(
    "orders",
    "/data/orders",
    "storage/tables/default/orders",
    TABLE,
    1200,
    (FlowAdoption(SimpleNamespace(name="orders"), JOB, 7),),
    notes=('flow "orders" skips batch 7: the job was stopped after the table had it',),
)
PROBLEM = PipelineError("ADOPT.TABLE_OLD", flow="orders", name="orders", checkpoint="/chk/orders", reason="it is")
RECORD = TableRecord(
    "orders", "/data/orders", "t-1", "/storage", Handover.ADOPTED, 0.0, consents=frozenset({Consent.CLEAR})
)


@dataclass
class FakeAdoptions:
    """Records what it was asked for."""

    asked: list[Any] = field(default_factory=list)
    plans: tuple[AdoptionPlan, ...] = (PLAN,)

    def plan(self, requests):
        self.asked.append(("plan", *requests))
        return self.plans

    def adopt(self, requests):
        self.asked.append(("adopt", *requests))
        return self.plans

    def find_spark_pipeline(self, folder, warehouse, only):
        self.asked.append(("find", folder, warehouse, only))
        return Found((AdoptRequest("orders", "/data/orders", {}),), {"largest": "it is a materialized view"})

    def allow(self, name, consents, *, revoke=False):
        self.asked.append(("allow", name, consents, revoke))
        return RECORD

    def claim(self, name):
        self.asked.append(("claim", name))
        return RECORD

    def undo(self, name):
        del name

    @property
    def releases(self):
        return FakeReleases(self.asked)


@dataclass
class FakeReleases:
    """The same for releases."""

    asked: list[Any]

    def forget(self, name):
        self.asked.append(("forget", name))
        return RECORD

    def plan(self, request):
        self.asked.append(("plan release", request))
        return ReleasePlan("orders", "/data/orders", "p", TABLE, 1200, ("deletionVectors",), (), is_adopted=True)

    def release(self, request):
        self.asked.append(("release", request))
        return self.plan(request)


@pytest.fixture
def adoptions():
    return FakeAdoptions()


@pytest.fixture
def headrace(adoptions, capsys):
    """Runs a command line; returns its exit code and its output."""

    def run(*words):
        def opener(_directory, **_options):
            return SimpleNamespace(adoptions=adoptions, redact=str)

        code = call(words, opener)
        return code, capsys.readouterr()

    return run


REQUEST = AdoptRequest("orders", "/data/orders", {"": "/chk/orders"})


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (["--table", "/data/orders", "--checkpoint", "/chk/orders"], ("adopt", REQUEST)),
        (["--table", "/data/orders", "--checkpoint", "/chk/orders", "--dry-run"], ("plan", REQUEST)),
        (
            ["--table", "/data/orders", "--checkpoint", "a=/chk/a", "--checkpoint", "b=/chk/b"],
            ("adopt", AdoptRequest("orders", "/data/orders", {"a": "/chk/a", "b": "/chk/b"})),
        ),
        (
            ["--table", "/data/orders", "--checkpoint", "/chk/x=1", "--allow", "maintain,clear"],
            (
                "adopt",
                AdoptRequest("orders", "/data/orders", {"": "/chk/x=1"}, frozenset({Consent.MAINTAIN, Consent.CLEAR})),
            ),
        ),
        (["--allow", "clear"], ("allow", "orders", frozenset({Consent.CLEAR}), False)),
        (["--forbid", "clear"], ("allow", "orders", frozenset({Consent.CLEAR}), True)),
        (["--claim"], ("claim", "orders")),
    ],
)
def test_words_become_a_request(headrace, adoptions, words, asked):
    """Guards the grammar of the options, a path with an equals sign included."""
    code, _ = headrace("adopt", "orders", *words)

    assert code == 0
    assert adoptions.asked[0] == asked


@pytest.mark.parametrize(
    "words",
    [
        ["adopt", "orders"],
        ["adopt"],
        ["adopt", "orders", "--table", "/data", "--claim"],
        ["adopt", "orders", "--allow", "everything"],
        ["adopt", "orders", "--table", "/data", "--checkpoint", "/a", "--checkpoint", "/b"],
    ],
)
def test_words_that_contradict_each_other_are_refused(headrace, adoptions, words):
    """Guards that nothing is adopted by a guess."""
    code, _ = headrace(*words)

    assert (code, adoptions.asked) == (2, [])


def test_an_adoption_names_the_next_batch_and_what_is_left_out(headrace, adoptions):
    """Guards the text that a person decides by."""
    code, printed = headrace("adopt", "--from-spark-pipelines", "/sdp", "--dry-run")

    assert code == 0
    assert adoptions.asked[0] == ("find", "/sdp", "", "")
    assert printed.out == (
        'table "orders": /data/orders, version 41 with 1200 rows; it stays there\n\n'
        "flow    checkpoint of the job  in the table  next batch\n"
        "------  ---------------------  ------------  ----------\n"
        "orders  /chk/orders            batch 7                8\n\n"
        'Note:\n  flow "orders" skips batch 7: the job was stopped after the table had it\n\n'
        "Not adopted; the next update computes these from the start:\n  largest: it is a materialized view\n\n"
        "nothing was written\n"
    )


def test_a_dry_run_with_a_problem_fails(headrace, adoptions):
    """Guards the exit code that scripts look at."""

    adoptions.plans = (replace(PLAN, problems=(PROBLEM,)),)

    code, printed = headrace("--output", "json", "adopt", "orders", "--table", "/data/orders", "--dry-run")

    (table,) = json.loads(printed.out)["tables"]
    assert (code, table["problems"][0]["code"], table["flows"][0]["next_batch"]) == (1, "ADOPT.TABLE_OLD", 8)


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (["--checkpoint-to", "/out"], ("release", ReleaseRequest("orders", "/out"))),
        (["--without-checkpoint", "--dry-run"], ("plan release", ReleaseRequest("orders", "", drops_progress=True))),
        (["--forget"], ("forget", "orders")),
    ],
)
def test_a_release_says_what_readers_have_to_know(headrace, adoptions, words, asked):
    """Guards the options of a release."""
    code, printed = headrace("release", "orders", *words)

    assert (code, adoptions.asked[0]) == (0, asked)
    assert "--forget" in words or "Readers and writers need the table features deletionVectors." in printed.out
