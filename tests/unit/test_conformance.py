"""The conformance run without documents: blocks that are found, claims that are read, texts that are put together."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from conformance.__main__ import PAGE, main
from conformance.claims import Check, Claim, DocumentClaims, Edit, Kind, Replacement, claims_of, read_claims
from conformance.editions import edition, source_digest
from conformance.extract import Lines, blocks_of, code_outside
from conformance.faults import faults
from conformance.loading import MAPPINGS, Document, documents_in, replacements_in
from conformance.page import MIN_FIRST_TWO, meets_minimum, page, results, summary
from conformance.wording import as_run, completed, replacement_proofs

ROOT = Path(__file__).resolve().parents[2]
GUIDE = """\
# Guide

```python
rows = spark.range(3)
```

```python
.option("a", "b")

# or
.option("c", "d")
```

```sql
SELECT 1
```
"""
NOTEBOOK = """\
Words.

In [None]:
# a comment
print("one")

In [2]:
print("two")

## A heading
"""
BARE = """\
Words, which are no code.
query = (frame
    .start()
)
More words.
"""


def claim(name, kind="as written", **more):
    (block,) = [block for block in blocks_of("000", GUIDE) if block.name == name]
    checks = [] if kind == "not code" else [{"value": "1", "is": 1}]
    effect = {} if kind == "not code" else {"checked": "one"}
    return {
        "name": name,
        "line": block.line,
        "digest": block.digest,
        "kind": kind,
        "what": "w",
        "check": checks,
        **effect,
        **more,
    }


WRITTEN = claim("000-01")
REPLACED = claim("000-01", "replacement", session="plain", replacement=1, code="rows = 1", refused="NameError")


def said(*blocks, **more):
    return claims_of({"document": "000", "about": "a guide", "block": list(blocks), **more})


def test_fenced_blocks_have_a_language_a_line_and_a_digest_of_their_text():
    blocks = blocks_of("000", GUIDE)

    assert [(one.name, one.line, one.language, one.parses) for one in blocks] == [
        ("000-01", 4, "python", True),
        ("000-02", 8, "python", False),
        ("000-03", 15, "sql", False),
    ]
    changed = blocks_of("000", GUIDE.replace("range(3)", "range(4)"))
    assert [one.digest == other.digest for one, other in zip(blocks, changed, strict=True)] == [False, True, True]


def test_a_notebook_cell_ends_at_the_next_cell_or_heading():
    blocks = blocks_of("000", NOTEBOOK)

    assert [(one.form, one.line, one.text) for one in blocks] == [
        ("cell", 4, '# a comment\nprint("one")'),
        ("cell", 8, 'print("two")'),
    ]


def test_unfenced_code_is_a_block_if_its_lines_are_listed_and_reported_otherwise():
    blocks = blocks_of("000", BARE, [Lines(2, 4)])

    assert [(one.line, one.text) for one in blocks] == [(2, "query = (frame\n    .start()\n)")]
    assert code_outside(BARE, blocks) == []
    assert code_outside(BARE, []) == [2, 3, 4]


@pytest.mark.parametrize("pieces", [[Lines(4, 4)], [Lines(90, 91)]])
def test_lines_inside_another_block_or_outside_the_document_are_refused(pieces):
    with pytest.raises(ValueError, match="line"):
        blocks_of("000", GUIDE, pieces)


def test_an_unclosed_fence_is_refused():
    with pytest.raises(ValueError, match="not closed"):
        blocks_of("000", "```python\nrows = 1\n")


def test_a_mapping_that_covers_every_block_has_no_faults():
    fragment = claim("000-02", "fragment", completion="(reader\n@@1@@\n@@4@@\n)")

    assert faults(blocks_of("000", GUIDE), said(claim("000-01"), fragment, claim("000-03", "not code")), ()) == []


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        (claim("000-01", digest="other"), "has changed"),
        (claim("000-01", line=3), "has changed"),
        (claim("000-01", check=[]), "an effect that is checked"),
        (claim("000-01", "replacement", code="rows = 1", refused="a"), "a number of a replacement"),
        (claim("000-01", "replacement", code="rows = 1", replacement=1), "what it is replaced by"),
        (claim("000-01", code="rows = 1"), "its own text"),
        (claim("000-01", "fragment"), "a completion"),
        (claim("000-01", pipeline="none"), "a pipeline that is described"),
        (claim("000-01", goes_on="000-02"), "the block before it"),
        (claim("000-01", places={"range(3)": "range(30)"}), "is no server, path or credential"),
    ],
)
def test_a_fault_in_a_claim_is_reported_with_its_block(wrong, fault):
    rest = [claim("000-02", "not code"), claim("000-03", "not code")]

    (found,) = faults(blocks_of("000", GUIDE), said(wrong, *rest), (1,))

    assert found.startswith("000-01")
    assert fault in found


def test_blocks_without_a_claim_and_claims_without_a_block_are_reported():
    extra = {**claim("000-01"), "name": "000-09"}

    found = faults(blocks_of("000", GUIDE), said(claim("000-01"), claim("000-01"), extra), ())

    assert next(fault for fault in found if "is in no kind" in fault).startswith("000-02")
    assert "000-01 is claimed twice" in found
    assert "000-09 is no block of the document" in found


@pytest.mark.parametrize(
    "check", [{"value": "1"}, {"value": "1", "rows_of": "SELECT 1", "is": 1}, {"printed": "a", "is": 1}]
)
def test_a_check_that_does_not_ask_exactly_one_thing_is_refused(check):
    with pytest.raises(ValueError, match="asks one thing"):
        said(claim("000-01", check=[check]))


def test_places_are_replaced_in_one_pass_with_the_longest_text_first():
    block = blocks_of("000", GUIDE)[0]
    places = [{"text": "spark", "is": "{root}spark"}, {"text": "spark.range", "is": "{root}.range"}]

    text = as_run(block, Claim("000-01", 4, "", Kind.AS_WRITTEN, "plain", "w"), said(place=places), {"root": "here"})

    assert text == "rows = here.range(3)"


def test_an_edit_of_text_that_is_not_in_the_block_is_refused():
    block = blocks_of("000", GUIDE)[0]
    edited = Claim("000-01", 4, "", Kind.REPLACED, "plain", "w", edits=(Edit("absent", ""),))

    with pytest.raises(ValueError, match="absent"):
        as_run(block, edited, said(), {})


def test_a_completed_fragment_contains_its_lines_unchanged():
    fragment = blocks_of("000", GUIDE)[1].text

    assert completed(fragment, "(reader\n@@1@@\n@@4@@\n)") == '(reader\n.option("a", "b")\n.option("c", "d")\n)'


@pytest.mark.parametrize("completion", ["(reader\n@@1@@\n)", "(reader\n@@1-4@@\n@@4@@\n)"])
def test_a_completion_that_omits_or_repeats_a_line_of_its_fragment_is_refused(completion):
    with pytest.raises(ValueError, match="exactly once"):
        completed(blocks_of("000", GUIDE)[1].text, completion)


def test_the_page_and_the_summary_count_blocks_that_meet_their_claim():
    claims = said(claim("000-01"), claim("000-02", "fragment", completion="@@1-4@@"), claim("000-03", "not code"))
    document = Document(claims, tuple(blocks_of("000", GUIDE)), ())
    now = edition(claims, "source")
    verdicts = {
        "000-01": {"edition": now, "faults": [], "seconds": 1.0},
        "000-02": {"edition": now, "faults": ["no rows"], "seconds": 1.0},
    }

    found = results([document], verdicts, "source")
    text = page(found, {1: Replacement(1, "why", "who says so", "instead")})

    assert found["python"] == {"fenced": 2, "parse": 1, "first_two": 1}
    assert "| 000-01 | 4 | w | runs as written | one |" in text
    assert "| 000-02 | 8 | w | in no kind (claimed: fragment completed by the harness) | one |" in text
    assert "| 1 | why | who says so | instead |  |" in text
    assert "    1  in no kind: 000-02" in summary(found)
    assert "100.0 %" in summary(found)


@pytest.mark.parametrize("verdicts", [{}, {"000-01": {"edition": "that of another mapping", "faults": []}}])
def test_a_block_without_a_current_verdict_does_not_meet_its_claim(verdicts):
    document = Document(said(claim("000-01")), tuple(blocks_of("000", GUIDE)), ())

    found = results([document], verdicts, "source")

    assert [entry["reached"] for entry in found["blocks"]] == [False, False, False]


def test_a_check_is_read_with_its_answer():
    assert said(claim("000-01")).claims[0].checks == (Check(value="1", answer=1),)
    assert isinstance(said(), DocumentClaims)


def test_a_missing_folder_is_reported_but_is_not_a_failure(tmp_path):
    call = [sys.executable, "-m", "conformance", str(tmp_path / "absent")]

    done = subprocess.run(call, cwd=ROOT, capture_output=True, encoding="utf-8", check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert "There is no folder" in done.stdout


def test_a_place_inside_a_format_or_an_option_name_is_refused():
    document = '```python\nreader.format("source").option("key", "value").load("place")\n```\n'
    (block,) = blocks_of("000", document)
    entry = {**claim("000-01"), "line": block.line, "digest": block.digest}
    texts = ("source", "key", "value", "place")

    found = faults([block], said({**entry, "places": dict.fromkeys(texts, "{root}")}), ())

    assert [fault.partition(" is in ")[0] for fault in found] == [
        "000-01: the place 'source'",
        "000-01: the place 'key'",
    ]


def test_the_mappings_use_every_replacement_and_number_them_consecutively():
    claims = [one for file in sorted(MAPPINGS.glob("[0-9]*.toml")) for one in read_claims(file).claims]
    known = replacements_in(MAPPINGS)

    assert {one.replacement for one in claims} - {0} == set(known)
    assert list(known) == list(range(1, len(known) + 1))


def test_a_replacement_with_several_edits_proves_that_each_edit_is_needed():
    block = blocks_of("000", GUIDE)[0]
    edits = (Edit("rows", "found"), Edit("range(3)", "range(4)", "NameError"))
    replaced = Claim("000-01", 4, "", Kind.REPLACED, "plain", "w", edits=edits, refused="TypeError")

    ways = [(way, pattern, text({})) for way, pattern, text in replacement_proofs(block, replaced, said())]

    assert ways == [
        ("as written", "TypeError", "rows = spark.range(3)"),
        ("without edit 2", "NameError", "found = spark.range(3)"),
    ]


def test_an_edition_changes_with_the_mapping_and_with_the_source():
    place = [{"text": "a", "is": "{root}"}]
    editions = [edition(said(claim("000-01")), "one"), edition(said(claim("000-01"), place=place), "one")]

    assert len({*editions, edition(said(claim("000-01")), "two")}) == 3


def test_the_source_digest_changes_with_a_file_of_the_harness(tmp_path):
    file = tmp_path / "conformance" / "running.py"
    file.parent.mkdir()
    file.write_text("one = 1\n")
    before = source_digest(tmp_path)

    file.write_text("one = 2\n")

    assert source_digest(tmp_path) != before


@pytest.mark.parametrize(("first_two", "there"), [(82, True), (81, False)])
def test_the_minimum_is_not_met_with_too_few_blocks_of_the_first_two_kinds(first_two, there):
    assert meets_minimum({"python": {"parse": 100, "first_two": first_two}}) is there


@pytest.fixture
def call(tmp_path):
    """The command line over a guide whose blocks have these claims, some of them wrongly; gives the exit code."""
    docs, mappings, work = (tmp_path / name for name in ("docs", "mappings", "work"))
    docs.mkdir()
    mappings.mkdir()
    (docs / "000_guide.md").write_text(GUIDE)
    replacement = {"number": 1, "why": "w", "told": "t", "instead": "i"}
    (mappings / "replacements.toml").write_text(f"replacement = [{_toml(replacement)}]\n")

    def called(*words, first=WRITTEN, wrong=()):
        blocks = [first, claim("000-02", "not code"), claim("000-03", "notebook session")]
        (mappings / "000.toml").write_text(f'document = "000"\nabout = "a guide"\nblock = {_toml(blocks)}\n')

        def worker(session, source, asked, names):
            """What the process of a session leaves behind."""
            (document,) = documents_in(asked.docs, asked.mappings)
            verdicts = [
                {"name": one.name, "edition": edition(document.mapping, source), "faults": ["no"] * (one.name in wrong)}
                for one in document.mapping.claims
                if one.session == session and (not names or one.name in names)
            ]
            (work / f"{session}.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in verdicts))
            return 0

        return main([str(docs), "--mappings", str(mappings), "--work", str(work), *words], worker)

    return called


def _toml(value):
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key} = {_toml(one)}' for key, one in value.items())}}}"
    return json.dumps(value)


@pytest.mark.parametrize(("words", "code"), [(["--only", "000-01"], 0), (["--only", "000-03"], 1), ([], 1)])
def test_the_exit_code_depends_only_on_the_requested_blocks(call, words, code):
    assert call(*words, wrong=["000-03"]) == code


@pytest.mark.parametrize(("first", "code"), [(WRITTEN, 0), (REPLACED, 1)])
def test_too_few_blocks_of_the_first_two_kinds_fail_the_run_even_if_all_claims_are_met(call, first, code):
    assert call(first=first) == code


def test_a_session_without_requested_blocks_is_not_started(call, capsys):
    call("--only", "000-03")

    assert "the notebook session" in (printed := capsys.readouterr().out)
    assert "the plain session" not in printed


@pytest.mark.parametrize("words", [["--only", "000-01"], ["--session", "notebook"]])
def test_results_of_only_some_blocks_are_not_published(call, words):
    with pytest.raises(ValueError, match="a part of the blocks is not published"):
        call(*words, "--publish")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--only", "000-01,000-77"], "no block, document or pipeline is called 000-77"),
        (["--only", "000-03", "--session", "plain"], "none of these blocks is run"),
    ],
)
def test_names_that_select_no_block_are_refused(call, words, told):
    with pytest.raises(ValueError, match=told):
        call(*words)


def test_a_document_without_a_mapping_is_reported(call, tmp_path, capsys):
    (tmp_path / "docs" / "005_new.md").write_text(GUIDE)

    call("--only", "000-01")

    assert "005_new.md has no mapping" in capsys.readouterr().out


def test_the_published_results_match_the_claims_of_the_mappings():
    found = json.loads(PAGE.with_suffix(".json").read_text())
    claims = [one for file in sorted(MAPPINGS.glob("[0-9]*.toml")) for one in read_claims(file).claims]

    of_claims = [(one.name, one.line, one.kind.label, one.replacement, one.what) for one in claims]
    assert [
        tuple(entry[key] for key in ("block", "line", "kind", "replacement", "what")) for entry in found["blocks"]
    ] == (of_claims)
    assert found["kinds"] == Counter(one.kind.label for one in claims)


def test_the_published_page_matches_the_published_results_and_meets_the_minimum():
    found = json.loads(PAGE.with_suffix(".json").read_text())

    assert PAGE.read_text() == page(found, replacements_in(MAPPINGS))
    assert meets_minimum(found)
    assert MIN_FIRST_TWO >= 0.82
