"""Each fault of a runbook, done to a storage: the doctor names it first, and its command or its edit ends it."""

from __future__ import annotations

import json

from headrace.cli.main import call


def test_a_healthy_pipeline_has_no_finding(shop):
    diagnosis = shop.diagnosis()

    assert (diagnosis.findings, diagnosis.unread, diagnosis.next_step) == ((), (), None)


def test_the_command_for_a_torn_checkpoint_repairs_it(shop):
    (shop.flow_folder / "0" / "commits" / "1").write_text("")

    finding, *others = shop.diagnosis().findings

    assert (finding.check.check_id, finding.flow, finding.safe, others) == ("checkpoint-torn", "orders", True, [])
    assert shop.run(finding.command) == 0
    assert shop.checks() == []


def test_the_edit_for_missing_monitoring_names_a_channel(shop):
    shop.write("pipeline.yml", "name: shop\n")

    (finding,) = shop.diagnosis().findings

    assert finding.check.check_id == "no-monitoring"
    shop.apply(finding.edit)
    assert shop.checks() == []


def test_many_small_files_are_found_with_the_limit_of_the_alert(shop):
    shop.write("pipeline.yml", (shop.folder / "pipeline.yml").read_text() + "  rules: {small_files: {threshold: 1}}\n")

    findings = shop.diagnosis().findings

    assert [(one.check.check_id, one.dataset, one.command) for one in findings] == [
        ("small-files", "raw", "headrace maintain raw"),
        ("small-files", "orders", "headrace maintain orders"),
    ]


def test_the_verb_exits_with_1_and_its_json_has_the_next_command(shop, capsys):
    (shop.flow_folder / "0" / "commits" / "1").write_text("")

    code = call(["--project", str(shop.folder), "--output", "json", "doctor", "orders"])

    document = json.loads(capsys.readouterr().out)
    assert (code, document["next"]) == (1, "headrace checkpoints repair orders")
    assert document["findings"][0].keys() == {
        *("check", "severity", "flow", "dataset", "evidence", "remedy", "command", "edit", "safe", "document")
    }


def test_an_unknown_flow_is_refused_with_a_suggestion(shop, capsys):
    code = call(["--project", str(shop.folder), "doctor", "order"])

    assert (code, "DOCTOR.UNKNOWN" in (shown := capsys.readouterr().err), "orders" in shown) == (2, True, True)
