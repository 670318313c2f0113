"""The verb: which files, what is printed, and how it exits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli.lint_inputs import LintInput
from headrace.cli.main import call
from headrace.errors import PipelineError
from headrace.lint.catalog import RULES

CACHE = "rows = spark.readStream.table('t')\nkept = rows.filter('id > 1').cache()\n"


@pytest.fixture
def lint(capsys, tmp_path, monkeypatch):
    """Runs ``headrace lint`` among files; gives its exit code and what it printed."""
    monkeypatch.chdir(tmp_path)

    def run(*words, files=()):
        for path, text in dict(files).items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
        code = call(["lint", *words])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_finding_is_shown_with_its_line_reason_and_fix(lint):
    code, out, _ = lint("a.py", files={"a.py": CACHE})

    assert code == 1
    assert out == (
        'a.py:2:30: error stream-cache: "cache" on a stream\n'
        "  |\n"
        "2 | kept = rows.filter('id > 1').cache()\n"
        "  |                              ^^^^^\n"
        "  = why: cache, persist, checkpoint and localCheckpoint run a DataFrame, but a stream runs only in a "
        "started query.\n"
        "  = fix: rows.filter('id > 1')\n"
        "\n"
        "1 finding in 1 file\n"
        "1 can be fixed with `headrace lint --fix`\n"
    )


def test_lint_without_findings_succeeds(lint):
    assert lint("a.py", files={"a.py": "a = 1\n"}) == (0, "no findings in 1 file\n", "")


def test_hidden_and_unsupported_files_in_folders_are_skipped(lint):
    files = {"b/c/a.py": CACHE, "b/a.sql": "SELECT input_file_name()", "b/.venv/a.py": CACHE, "b/a.txt": CACHE}

    code, out, _ = lint("b", "--format", "json", files=files)

    found = json.loads(out)
    assert (code, found["files"]) == (1, 2)
    assert [(finding["file"], finding["rule"]) for finding in found["findings"]] == [
        ("b/a.sql", "input-file-name"),
        ("b/c/a.py", "stream-cache"),
    ]


@pytest.mark.parametrize("words", [("--format", "json"), ("--output", "json")])
def test_json_output_is_one_document(lint, words):
    code, out, err = lint("a.py", *words, files={"a.py": CACHE})

    (finding,) = json.loads(out)["findings"]
    assert (code, err, finding["line"]) == (1, "", 2)
    keys = {"rule", "severity", "message", "why", "instead", "fixable", "file", "line", "column", "end_line"}
    assert {*keys, "end_column"} == set(finding)
    assert finding["fixable"]


def test_syntax_error_is_reported_together_with_findings_in_other_files(lint):
    files = {"a.py": CACHE, "b.py": "a = (\n"}

    code, out, err = lint("a.py", "b.py", files=files)
    json_code, document, _ = lint("a.py", "b.py", "--output", "json")

    assert (code, json_code) == (2, 2)
    assert "a.py:2:30: error stream-cache" in out
    assert "error[FILE.SYNTAX]" in err
    assert "--> b.py:1" in err
    found = json.loads(document)
    assert (found["error"]["code"], found["error"]["location"]) == ("FILE.SYNTAX", {"file": "b.py", "line": 1})
    assert [finding["file"] for finding in found["findings"]] == ["a.py"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["nowhere.py"], "LINT.NO_FILE"),
        (["a.txt"], "LINT.FILE_KIND"),
        (["latin.py"], "LINT.UNREADABLE"),
        (["a.py", "--select", "stream-cash"], "LINT.UNKNOWN_RULE"),
        (["a.py", "--format", "xml"], "CLI.USAGE"),
        (["a.py", "--format", "sarif", "--output", "json"], "CLI.CONFLICT"),
        ([], "SETTINGS.NOT_FOUND"),
    ],
)
def test_invalid_files_rules_and_formats_are_rejected(lint, tmp_path, words, code):
    (tmp_path / "latin.py").write_bytes(b"a = '\xe9'\n")
    json_words = [] if "--output" in words else ["--output", "json"]

    exit_code, out, _ = lint(*words, *json_words, files={"a.py": "", "a.txt": ""})

    assert exit_code == 2
    assert json.loads(out)["error"]["code"] == code


def test_file_named_twice_is_checked_once(lint, tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "link.py").symlink_to(tmp_path / "a.py")

    _, out, _ = lint("a.py", "./a.py", str(tmp_path / "a.py"), "b", files={"a.py": CACHE})

    assert "\n\n1 finding in 1 file\n" in out


def test_declared_encoding_of_a_python_file_is_used(lint, tmp_path):
    (tmp_path / "a.py").write_bytes(f"# coding: latin-1\n# \xe9\n{CACHE}".encode("latin-1"))

    code, out, _ = lint("a.py")

    assert (code, out.partition(": ")[0]) == (1, "a.py:4:30")


def test_summary_reports_files_that_are_only_partly_readable(lint):
    _, out, _ = lint("a.py", "b.py", files={"a.py": "a = (", "b.py": "a = 1"})

    assert out == "no findings in 2 files, 1 of them only partly readable\n"


@pytest.mark.parametrize("deep", ["a = " + "-" * 20_000 + "1\n", "a = " + "1 + " * 20_000 + "1\n"])
def test_too_deeply_nested_file_does_not_hide_findings_in_other_files(lint, deep):
    code, out, err = lint("a.py", "b.py", files={"a.py": deep, "b.py": CACHE})

    assert code == 2
    assert "b.py:2:30: error stream-cache" in out
    assert "--> a.py" in err
    assert "INTERNAL" not in err


def test_unknown_rule_is_reported_with_the_nearest_name(lint):
    _, _, err = lint("a.py", "--ignore", "stream-cash", files={"a.py": ""})

    assert "Did you mean stream-cache?" in err


def test_project_is_checked_if_no_file_is_named(lint):
    pipeline = """
from headrace import pipelines as dp

@dp.table
def a():
    return spark.readStream.format("cloudFiles").load("/x").cache()
"""
    # A part of the project without decorators has what the project brings, too.
    part = 'files = spark.readStream.format("cloudFiles").load("/x")\nkey = dbutils.secrets.get("a", "b")\n'
    files = {"pipeline.yml": "name: shop\n", "transformations/a.py": pipeline, "transformations/b.py": part}

    code, out, _ = lint("--format", "json", files=files)

    found = json.loads(out)
    assert (code, found["files"]) == (1, 2)
    assert [finding["rule"] for finding in found["findings"]] == ["stream-cache"]


@pytest.mark.parametrize("output", ["text", "json"])
def test_explain_shows_a_rule(capsys, output):
    code = call(["explain", "stream-cache", "--output", output])

    out = capsys.readouterr().out
    rule = next(rule for rule in RULES if rule.id == "stream-cache")
    assert code == 0
    assert rule.why in out
    shown = json.loads(out)["failing"] if output == "json" else out
    assert rule.failing.splitlines()[-1] in shown


def test_long_method_chain_is_checked(lint):
    columns = "".join(f"    .withColumn('c{number}', F.lit({number}))\n" for number in range(500))

    code, out, _ = lint(
        "a.py", files={"a.py": f"rows = (\n    spark.readStream.table('t')\n{columns}    .cache()\n)\n"}
    )

    assert (code, out.partition(": ")[0]) == (1, "a.py:503:6")


def test_explain_suggests_the_nearest_rule(capsys):
    code = call(["explain", "stream-cash"])

    assert code == 2
    assert "Did you mean stream-cache?" in capsys.readouterr().err


def test_other_commands_import_neither_lint_nor_sqlglot():
    code = "import sys, headrace.cli.main; print([n for n in sys.modules if n in ('sqlglot', 'headrace.lint')])"

    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)

    assert shown.stdout == "[]\n"


SARIF = {
    ("version",): "2.1.0",
    ("runs", 0, "tool", "driver", "name"): "headrace lint",
    ("runs", 0, "results", 0, "ruleId"): "stream-cache",
    ("runs", 0, "results", 0, "level"): "error",
    ("runs", 0, "results", 0, "locations", 0, "physicalLocation", "artifactLocation", "uri"): "with%20space/a.py",
    ("runs", 0, "results", 0, "locations", 0, "physicalLocation", "region", "startLine"): 2,
    ("runs", 0, "results", 0, "locations", 0, "physicalLocation", "region", "startColumn"): 30,
    ("runs", 0, "results", 0, "locations", 0, "physicalLocation", "region", "endColumn"): 35,
    ("runs", 0, "invocations", 0, "executionSuccessful"): False,
    ("runs", 0, "invocations", 0, "toolExecutionNotifications", 0, "descriptor", "id"): "FILE.SYNTAX",
}


def test_sarif_contains_findings_with_locations_and_file_errors(lint):
    code, out, _ = lint("--format", "sarif", ".", files={"with space/a.py": CACHE, "b.py": "a = ("})

    log = json.loads(out)
    assert code == 2
    assert {path: at(log, path) for path in SARIF} == SARIF


def test_sarif_describes_each_rule_that_a_result_refers_to(lint):
    _, out, _ = lint("--format", "sarif", "a.py", files={"a.py": CACHE})

    (run,) = json.loads(out)["runs"]
    rules = run["tool"]["driver"]["rules"]
    (result,) = run["results"]
    assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    assert [rule["id"] for rule in rules] == [rule.id for rule in RULES]
    assert all(rule["help"]["text"] and rule["fullDescription"]["text"] for rule in rules)
    assert {rule["defaultConfiguration"]["level"] for rule in rules} == {"error", "warning"}


def test_sarif_names_the_cell_of_a_notebook_instead_of_a_json_line(lint):
    cells = [{"cell_type": "code", "source": text} for text in ("a = 1", CACHE, "b = (")]

    _, out, _ = lint("--format", "sarif", "a.ipynb", files={"a.ipynb": json.dumps({"nbformat": 4, "cells": cells})})

    (run,) = json.loads(out)["runs"]
    (result,) = run["results"]
    (notification,) = run["invocations"][0]["toolExecutionNotifications"]
    assert result["message"]["text"].startswith('Cell 2, line 2: "cache" on a stream.')
    assert result["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "a.ipynb", "uriBaseId": "SRCROOT"}
    }
    assert notification["message"]["text"] == "file is not valid Python (a.ipynb cell 3 line 1)"


def test_file_name_that_is_not_unicode_is_escaped_in_sarif(lint, tmp_path):
    (tmp_path / os.fsdecode(b"bad\xff.py")).write_text(CACHE)

    code, out, _ = lint("--format", "sarif", ".")

    (result,) = json.loads(out)["runs"][0]["results"]
    assert code == 1
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "bad%FF.py"


SECRETS = """
rows = spark.read.format("jdbc").option("url", "jdbc:x?user=a&password=hunter2").option("password", "May\\t26").load()
spark.conf.set("fs.azure.account.key.shop.dfs.core.windows.net", "c2VjcmV0")
def write(batch, number):
    batch.write.format("delta").mode("append").option("password", "Autumn26").save("/t")
rows.writeStream.option("checkpointLocation", "/c").foreachBatch(write).start()
"""


@pytest.mark.parametrize("form", ["text", "json", "sarif"])
@pytest.mark.parametrize("rules", [(), ("--select", "foreach-batch-not-idempotent")])
def test_secrets_are_redacted_in_every_output_format(lint, form, rules):
    code, out, _ = lint("a.py", "--format", form, *rules, files={"a.py": SECRETS})

    assert code == 1
    assert out.count("contains a secret") == (0 if rules else 4)
    assert not [secret for secret in ("hunter2", "May", "c2VjcmV0", "Autumn26") if secret in out]


def at(value, path):
    for step in path:
        value = value[step]
    return value


def test_own_examples_and_templates_have_no_findings(lint):
    root = Path(__file__).resolve().parents[3]
    templates = root / "src" / "headrace" / "templates"
    files = {
        f"template/{path.relative_to(templates).as_posix().removesuffix('.tmpl')}": path.read_text()
        for path in templates.rglob("*")
        if path.name.endswith((".py.tmpl", ".sql"))
    }

    examples = [file for file in (root / "examples").rglob("*") if file.suffix in (".py", ".sql")]
    code, out, err = lint(str(root / "examples"), "template", "--format", "json", files=files)

    found = json.loads(out)
    assert (code, found["findings"], err) == (0, [], "")
    assert found["files"] == len(files) + len(examples)
    assert min(len(files), len(examples)) > 0


def test_fix_rewrites_files_and_reports_what_is_left(lint, tmp_path):
    files = {"a.py": CACHE + "rows.orderBy('id')\n", "b.py": "a = 1\n"}
    (tmp_path / "a.py").touch(mode=0o755)

    code, out, err = lint("a.py", "b.py", "--fix", files=files)

    assert (code, err) == (1, "")
    assert (tmp_path / "a.py").read_text() == CACHE.replace(".cache()", "") + "rows.orderBy('id')\n"
    assert (tmp_path / "a.py").stat().st_mode & 0o777 == 0o755
    assert out.startswith("a.py: fixed stream-cache (1)\n")
    assert out.endswith("1 finding in 2 files\n")


def test_fixed_files_have_nothing_more_to_fix(lint, tmp_path):
    first = lint("a.py", "--fix", files={"a.py": CACHE})
    written = (tmp_path / "a.py").stat()

    assert (first[0], lint("a.py", "--fix")) == (0, (0, "no findings in 1 file\n", ""))
    assert (tmp_path / "a.py").stat().st_ino == written.st_ino


DIFF = """\
--- a/a.py
+++ b/a.py
@@ -1,2 +1,2 @@
 rows = spark.readStream.table('t')
-kept = rows.filter('id > 1').cache()
+kept = rows.filter('id > 1')
"""


@pytest.mark.parametrize("words", [("--diff",), ("--fix", "--diff")])
def test_diff_shows_what_fix_would_change_and_writes_nothing(lint, tmp_path, words):
    code, out, _ = lint("a.py", *words, files={"a.py": CACHE})

    assert (code, out) == (1, f"{DIFF}1 finding would be fixed in 1 file\n")
    assert (tmp_path / "a.py").read_text() == CACHE
    assert lint("b.py", *words, files={"b.py": "a = 1"}) == (0, "nothing to fix\n", "")


def test_fixes_are_one_json_document_with_the_findings_that_are_left(lint):
    files = {"a.py": CACHE + "rows.orderBy('id')"}

    _, diff, _ = lint("a.py", "--diff", "--output", "json", files=files)
    code, out, _ = lint("a.py", "--fix", "--output", "json")

    found = json.loads(out)
    assert (code, [one["rule"] for one in found["fixed"]]) == (1, ["stream-cache"])
    assert [one["rule"] for one in found["findings"]] == ["stream-sort"]
    assert "-kept = rows.filter('id > 1').cache()\n" in json.loads(diff)["diff"]


def test_only_selected_rules_are_fixed(lint, tmp_path):
    files = {"a.py": CACHE + "a = 1  # headrace: ignore[stream-sort]\n"}

    lint("a.py", "--fix", "--ignore", "stream-cache", files=files)

    assert (tmp_path / "a.py").read_text() == CACHE + "a = 1\n"


def test_encoding_line_ends_and_links_of_a_fixed_file_stay(lint, tmp_path):
    program = f"# coding: latin-1\r\n# \xe9\r\n{CACHE}"
    (tmp_path / "there.py").write_bytes(program.encode("latin-1"))
    (tmp_path / "a.py").symlink_to("there.py")

    code, _, _ = lint("a.py", "--fix")

    assert code == 0
    assert (tmp_path / "a.py").is_symlink()
    assert (tmp_path / "there.py").read_bytes() == program.replace(".cache()", "").encode("latin-1")


def test_a_file_that_may_not_be_written_stays_and_is_not_reported_as_fixed(lint, tmp_path):
    (tmp_path / "a.py").write_text(CACHE)
    (tmp_path / "a.py").chmod(0o444)

    code, out, err = lint("a.py", "--fix")

    assert (code, "fixed" in out, "error[LINT.NOT_WRITTEN]" in err) == (2, False, True)
    assert (tmp_path / "a.py").read_text() == CACHE


def test_a_file_that_changes_while_it_is_checked_stays(tmp_path):
    source = LintInput(tmp_path / "a.py", in_project=False)
    source.file.write_text("a = 1")
    old = source.read()
    source.file.write_text("a = 2")

    with pytest.raises(PipelineError, match="cannot be written: it has changed"):
        source.write("", old=old)

    assert source.file.read_text() == "a = 2"


def test_secrets_are_masked_in_a_diff(lint):
    program = 'spark.conf.set("fs.azure.account.key.shop.dfs.core.windows.net", "c2VjcmV0")\n'

    _, out, _ = lint("a.py", "--diff", files={"a.py": program + CACHE})

    assert ("c2VjcmV0" in out, "+kept" in out) == (False, True)


def test_a_file_that_cannot_be_fixed_is_reported_and_the_others_are_fixed(lint, tmp_path):
    code, out, err = lint("a.py", "b.py", "--fix", files={"a.py": "a = (\n", "b.py": CACHE})

    assert code == 2
    assert "error[FILE.SYNTAX]" in err
    assert out.startswith("b.py: fixed stream-cache (1)\n")
    assert (tmp_path / "a.py").read_text() == "a = (\n"


def test_fixes_are_not_written_as_sarif(lint):
    code, out, _ = lint("a.py", "--fix", "--format", "sarif", files={"a.py": CACHE})

    assert (code, out) == (2, "")
