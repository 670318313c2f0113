"""The success checklist: a criterion passes with evidence alone, and unknown is not passed."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from tests.servers.receiver import running_receiver
from tests.unit.doctor.conftest import DEFINED, PROGRAM, SETTINGS, START

from headrace.assistant.doctor.checklist import Status, check_criteria
from headrace.assistant.doctor.checks import checks, checks_by
from headrace.assistant.doctor.criteria import criteria
from headrace.assistant.doctor.examine.alerts import NOT_EXAMINED
from headrace.assistant.doctor.facts import Facts
from headrace.cli.main import call
from headrace.errors import conditions
from headrace.events.types import ExternalInput, FlowDefined, FlowLagMetrics
from headrace.lint.catalog import rule_ids
from headrace.model.alert_rules import rules
from headrace.model.outcome import FilesBacklog
from headrace.project.inspection.diagnosis.crash_tests import crash_tests_of, record_crash_test
from headrace.runtime.failpoints import Failpoint
from headrace.testing.crash import Crashed, CrashFailpoint
from headrace.testing.crash_results import record_crashes

LATER = START + timedelta(minutes=1)
EVERYTHING = tuple(criteria())


def statuses(shop):
    return {one.criterion.criterion_id: one.status.value for one in shop.checklist().results}


def complete(shop):
    """Everything that the checklist asks for, except a test message."""
    shop.write("runbook.md", "Call the data team.\n")
    record_crash_test(shop.settings, "tests/test_orders.py::test_crash", ["written"], time.time(), passed=True)
    shop.update(FlowLagMetrics("raw", "raw", backlog=(FilesBacklog("landing", 0, 0),)), at=LATER)


def test_nothing_passes_without_evidence(shop):
    known = check_criteria(Facts(now=0, settings=shop.settings)).results

    assert {one.status for one in known} == {Status.UNKNOWN}
    assert all(one.next_step for one in known)


def test_a_complete_pipeline_passes_everything_but_a_channel_that_was_not_tested(shop):
    complete(shop)

    assert statuses(shop) == {**dict.fromkeys(EVERYTHING, "pass"), "monitoring": "unknown"}
    assert [shop.checklist().passes(strict=strict) for strict in (False, True)] == [True, False]


def test_a_channel_passes_once_a_test_message_has_reached_it_and_not_after_it_changed(shop):
    complete(shop)
    with running_receiver() as receiver:
        shop.write("pipeline.yml", SETTINGS.replace("http://127.0.0.1:8080/", receiver.url))
        before = statuses(shop)["monitoring"]
        assert shop.run("headrace alerts test ops") == 0
        after = statuses(shop)["monitoring"]
    shop.write("pipeline.yml", SETTINGS)

    assert (before, after, statuses(shop)["monitoring"]) == ("unknown", "pass", "unknown")


@pytest.mark.parametrize("change", ["transformations/orders.py", "tests/test_orders.py", "pipeline.yml"])
def test_a_crash_test_proves_nothing_about_other_program_text(shop, change):
    shop.write("tests/test_orders.py", "")
    complete(shop)
    assert statuses(shop)["fault-tolerance"] == "pass"
    file = shop.folder / change

    shop.write(change, f"{file.read_text()}\n# changed\n")

    assert statuses(shop)["fault-tolerance"] == "unknown"


def test_only_tests_in_which_an_update_crashed_are_recorded(shop):
    fired, other = CrashFailpoint(Failpoint.WRITTEN), CrashFailpoint(Failpoint.COUNTED)
    with pytest.raises(Crashed):
        fired(Failpoint.WRITTEN)
    file = shop.write("tests/test_orders.py", "")

    for test, crashes in (("a", [fired, other]), ("b", [other]), ("c", [])):
        record_crashes(file, test, crashes, passed=True)

    assert [(one.test, one.failpoints) for one in crash_tests_of(shop.settings)] == [("a", ("written",))]


def test_a_crash_test_that_failed_fails_its_criterion(shop):
    complete(shop)
    record_crash_test(shop.settings, "tests/test_orders.py::test_other", ["written"], time.time(), passed=False)

    (result,) = [one for one in shop.checklist().results if one.criterion.criterion_id == "fault-tolerance"]

    assert (result.status, result.next_step) == (Status.FAIL, "pytest tests/test_orders.py::test_other")


def without_comment(shop):
    shop.update(at=LATER + timedelta(minutes=1), defined=(replace(DEFINED[0], comment=None), *DEFINED[1:]))


def unread_files(shop):
    shop.update(FlowLagMetrics("raw", "raw", backlog=(FilesBacklog("landing", 3, 9),)), at=LATER + timedelta(minutes=1))


def outdated_design(shop):
    shop.write("design.md", "The table raw.\n")


def torn(shop):
    (shop.flow_folder / "0" / "commits" / "1").write_text("")


def unbounded(shop):
    shop.write("transformations/orders.py", PROGRAM.replace('.table("raw")', '.table("raw").dropDuplicates(["id"])'))


@pytest.mark.parametrize(
    ("fault", "criterion", "status"),
    [
        (without_comment, "documentation", "fail"),
        (outdated_design, "documentation", "fail"),
        (unread_files, "lag", "fail"),
        (torn, "checkpointing", "fail"),
        (unbounded, "watermark", "fail"),
        (lambda shop: (shop.folder / "runbook.md").unlink(), "documentation", "fail"),
        (lambda shop: shop.write("pipeline.yml", "name: shop\n"), "monitoring", "fail"),
    ],
)
def test_a_fault_fails_its_criterion(shop, fault, criterion, status):
    complete(shop)

    fault(shop)

    assert statuses(shop)[criterion] == status


def unreadable_log(shop):
    log = shop.storage / "system" / "events" / "_delta_log"
    max(log.glob("*.json")).write_text("{")


@pytest.mark.parametrize(
    ("fault", "unknown"),
    [
        (unreadable_log, {*EVERYTHING} - {"monitoring"}),
        (lambda shop: shop.write("requirements.yml", "latency: daily\n"), {"lag"}),
        (lambda shop: shop.write(".headrace/crash-tests/a.json", "[]"), {"fault-tolerance"}),
        (lambda shop: shop.write("transformations/bad.py", "def"), {"watermark", "errors", "fault-tolerance"}),
    ],
)
def test_nothing_passes_because_of_what_could_not_be_read(shop, fault, unknown):
    complete(shop)

    fault(shop)

    assert {name for name, status in statuses(shop).items() if status == "unknown"} == {*unknown, "monitoring"}


FROM_TOPIC = FlowDefined("raw", "raw", external_inputs=(ExternalInput("stream", "topic"),))
DEAD_LETTERS = '@dp.table(comment="Orders as they come", spark_conf={"headrace.failing_rows": "quarantine"})'


@pytest.mark.parametrize(
    ("flow", "change", "status"),
    [
        (FROM_TOPIC, ("@dp.expect", "# headrace.failing_rows\n@dp.expect"), "unknown"),
        (FROM_TOPIC, ('@dp.table(comment="Orders as they come")', DEAD_LETTERS), "pass"),
        (FlowDefined("raw", "raw"), ("", ""), "unknown"),
    ],
)
def test_actions_for_bad_records_need_evidence_for_each_flow(shop, flow, change, status):
    complete(shop)
    shop.write("transformations/orders.py", PROGRAM.replace(*change))
    plain = replace(DEFINED[1], expectations=())
    shop.update(at=LATER + timedelta(minutes=1), defined=(DEFINED[0], plain, flow, DEFINED[3]))

    assert statuses(shop)["errors"] == status


def test_a_design_that_has_the_name_of_a_dataset_inside_a_word_does_not_mention_it(shop):
    complete(shop)
    shop.write("design.md", "The table raw, and reorders.\n")

    assert statuses(shop)["documentation"] == "fail"


def test_nothing_about_datasets_passes_if_one_of_the_program_has_not_run(shop):
    complete(shop)
    shop.write("transformations/new.py", "@dp.table(comment='new')\ndef new_table():\n    return None\n")
    generated = "for n in range(2):\n    @dp.table(name=f'{n}')\n    def one():\n        return None\n"
    shop.write("transformations/generated.py", generated)
    with_new = statuses(shop)
    (shop.folder / "transformations" / "new.py").unlink()

    assert {name for name in EVERYTHING if with_new[name] == "pass"} == set()
    assert statuses(shop)["lag"] == "pass"


def test_lag_is_measured_against_the_latency_of_the_requirements(shop):
    complete(shop)

    def status(orders):
        shop.write("requirements.yml", f"latency: 5 minutes\noutputs: [{{name: orders, latency: {orders}}}]\n")
        return statuses(shop)["lag"]

    # The last look at the source was 4 minutes ago.
    known = [status("1 hour"), status("10 seconds")]
    shop.read_again_from(1)
    # The commit that it has not read is as old as the test.
    shop.now = datetime.now(UTC) + timedelta(minutes=1)

    assert (known, status("10 seconds")) == (["pass", "unknown"], "fail")


def test_the_verb_fails_for_unknown_criteria_if_strict(shop, capsys):
    complete(shop)
    codes = [call(["--project", str(shop.folder), "--output", "json", "check", *more]) for more in ([], ["--strict"])]

    document = json.loads(capsys.readouterr().out.splitlines()[0])
    assert [one["criterion"] for one in document["criteria"]] == list(EVERYTHING)
    assert document["criteria"][0].keys() == {"criterion", "status", "evidence", "next", "points"}
    # The storage of the test may lie in a folder for temporary files.
    assert codes[1] == 1


def test_each_point_of_the_checklists_and_best_practices_is_covered_once():
    points = [point for criterion in criteria().values() for point in criterion.points]

    assert len(points) == len(set(points))
    assert sum(point.startswith("success criteria:") for point in points) == len(criteria())
    assert sum(point.startswith("troubleshooting:") for point in points) == 7


def test_checks_name_what_exists():
    assert set(checks_by("errors")) <= set(conditions())
    assert set(checks_by("lint")) <= set(rule_ids())
    assert {name for one in criteria().values() for name in (*one.checks, *one.with_advice)} <= set(checks())


def test_each_rule_of_alerts_belongs_to_one_check_or_to_none_on_purpose():
    assert set(checks_by("alerts")) == set(rules()) - NOT_EXAMINED


def test_a_delay_without_earlier_rows_to_compare_with_is_unknown_and_says_so(shop):
    watermark = '.table("raw").withWatermark("at", "1 hour").dropDuplicatesWithinWatermark(["id"])'
    shop.write("transformations/orders.py", PROGRAM.replace('.table("raw")', watermark))
    (shop.flow_folder / "0" / "state" / "0" / "0").mkdir(parents=True)
    shutil.rmtree(shop.raw)
    write_deltalake(shop.raw, pa.table({"id": [1], "at": pa.array([START], pa.timestamp("us", "UTC"))}))

    (result,) = [one for one in shop.checklist().results if one.criterion.criterion_id == "watermark"]

    assert result.status is Status.UNKNOWN
    assert 'all rows of "raw" came in one commit' in result.evidence
