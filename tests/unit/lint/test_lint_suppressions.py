"""Comments that keep rules quiet, and rules that are selected."""

from __future__ import annotations

import pytest

from headrace.lint.lint_files import Selection, lint_text

CACHE = "spark.readStream.table('t').cache()"


@pytest.mark.parametrize(
    "text",
    [
        f"{CACHE}  # headrace: ignore[stream-cache]",
        f"{CACHE}  # headrace: ignore",
        f"{CACHE}  # noqa: X # headrace: ignore[stream-sort, stream-cache]\nspark.readStream.table('t').sort('a')",
        f"# headrace: ignore-file[stream-cache]\n\n{CACHE}",
        f"{CACHE}\n# headrace: ignore-file",
        "rows = (  # headrace: ignore[stream-cache]\n    spark.readStream.table('t')\n    .cache()\n)",
        "rows = (\n    spark.readStream.table('t')\n    .cache()  # headrace: ignore[stream-cache]\n)",
    ],
)
def test_comment_suppresses_a_finding(text):
    linted = lint_text(text, ".py", "a.py", selection=Selection(ignore=("stream-sort", "unused-suppression")))

    assert linted.findings == ()


@pytest.mark.parametrize(
    "text",
    [
        f"# headrace: ignore[stream-cache]\n{CACHE}",
        f"{CACHE}  # headrace: ignore[stream-sort]",
        f"note = '# headrace: ignore[stream-cache]'; {CACHE}",
        f"def a():  # headrace: ignore[stream-cache]\n    {CACHE}",
        f"{CACHE}  # headrace: ignored[stream-cache]",
    ],
)
def test_comment_elsewhere_or_for_another_rule_suppresses_nothing(text):
    assert "stream-cache" in [finding.rule.id for finding in lint_text(text, ".py", "a.py").findings]


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("SELECT input_file_name() -- headrace: ignore[input-file-name]", []),
        ("SELECT -- headrace: ignore[input-file-name]\n  input_file_name()", []),
        ("-- headrace: ignore-file[input-file-name]\nSELECT input_file_name()", []),
        ("SELECT '-- headrace: ignore', input_file_name()", ["input-file-name"]),
    ],
)
def test_sql_suppression_comment_starts_with_two_dashes(found, text, rules):
    assert [rule for rule, _ in found(text, ".sql")] == rules


@pytest.mark.parametrize(
    ("comment", "message"),
    [
        ("# headrace: ignore", "this comment suppresses no finding"),
        ("# headrace: ignore-file[stream-sort]", 'this comment suppresses no finding of "stream-sort"'),
        ("# headrace: ignore[stream-cash]", 'unknown rule "stream-cash"'),
    ],
)
def test_unused_suppression_comment_is_reported(comment, message):
    (finding,) = lint_text(f"a = 1  {comment}", ".py", "a.py").findings

    assert (finding.rule.id, finding.message, finding.column) == ("unused-suppression", message, 10)


def test_unused_suppression_comment_for_a_deselected_rule_is_not_reported(found):
    text = "a = 1  # headrace: ignore[stream-sort]"

    assert found(text, selection=Selection(ignore=("stream-sort",))) == []
    assert found(text, selection=Selection(select=("stream-cache",))) == []


def test_rules_can_be_selected(found):
    text = f"{CACHE}\nspark.readStream.table('t').sort('a')"

    assert found(text, selection=Selection(select=("stream-sort",))) == [("stream-sort", 2)]
    assert found(text, selection=Selection(ignore=("stream-sort",))) == [("stream-cache", 1)]


@pytest.mark.parametrize(
    "comment",
    [
        "ignore [stream-cache]",
        "ignore[stream-cache",
        "ignore stream-cache",
        "ignore: stream-cache",
        "ignore(stream-cache)",
        "ignore[]",
        "ignore[ , ]",
        "ignore-file stream-cache",
        "ignored[stream-cache]",
        "ignore, it is only a test",
    ],
)
def test_malformed_suppression_comment_has_no_effect_and_is_reported(comment):
    findings = lint_text(f"{CACHE}  # headrace: {comment}", ".py", "a.py").findings

    assert [finding.rule.id for finding in findings] == ["stream-cache", "unused-suppression"]
    assert findings[1].message == "this ignore comment is malformed and has no effect"


@pytest.mark.parametrize("comment", ["# headrace: ignore", "# headrace: ignore[stream-cache]"])
@pytest.mark.parametrize("behind", ["", "  ", " # noqa: X", "  # and why"])
def test_suppression_comment_can_precede_another_comment(found, comment, behind):
    assert found(f"{CACHE}  {comment}{behind}") == []


IN_STRING = """
spark.sql(
    \"""
    SELECT id,{inside}
      input_file_name() AS file{line}
    FROM t
    \"""{closing}
)
"""


@pytest.mark.parametrize(
    ("place", "comment"),
    [
        ("line", "  -- headrace: ignore[input-file-name]"),
        ("line", "  -- headrace: ignore"),
        ("closing", "  # headrace: ignore[input-file-name]"),
        ("inside", "  -- headrace: ignore-file[input-file-name]"),
    ],
)
def test_comments_inside_and_after_a_sql_string_suppress_findings(found, place, comment):
    places = {"inside": "", "line": "", "closing": ""}

    assert found(IN_STRING.format(**places)) == [("input-file-name", 4)]
    assert found(IN_STRING.format(**{**places, place: comment})) == []


def test_comment_on_another_line_of_sql_suppresses_nothing(found):
    text = IN_STRING.format(inside="  -- headrace: ignore[input-file-name]", line="", closing="")

    assert [rule for rule, _ in found(text)] == ["unused-suppression", "input-file-name"]


def test_two_dashes_in_a_sql_string_literal_are_not_a_comment(found):
    text = "spark.sql(\"SELECT '-- headrace: ignore', input_file_name()\")"

    assert [rule for rule, _ in found(text)] == ["input-file-name"]
