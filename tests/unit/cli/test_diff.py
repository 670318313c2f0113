"""What `headrace diff` asks of the project and prints on a terminal of 80 columns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.cli.diff import diff_lines
from headrace.model.schema_difference import SchemaChangeKind, SchemaDifference
from headrace.model.table_diff import DiffRequest, DiffSide, Example, ExampleKind, KeyOrigin, RowCounts, TableDiff

FIRST = DiffSide("version 41", 41, "MERGE", "2026-11-28T10:00:00+00:00", 9965, 40, 314_572_800, 2, 1_258_291)
SECOND = DiffSide("version 42", 42, "MERGE", "2026-11-28T11:30:00+00:00", 9967, 41, 315_621_376, 3, 1_363_149)
CHANGED = Example(ExampleKind.CHANGED, {"id": 1001}, {"amount": 10, "status": "open"}, {"amount": 12, "status": "paid"})
NULL = Example(ExampleKind.CHANGED, {"id": 1002}, {"amount": None}, {"amount": 7})
DOCUMENTED = TableDiff(
    "orders",
    FIRST,
    SECOND,
    ("id",),
    KeyOrigin.OPTION,
    (
        SchemaDifference(SchemaChangeKind.ADDED, "discount", "", "decimal(10,2)"),
        SchemaDifference(SchemaChangeKind.TYPE, "amount", "int", "bigint"),
    ),
    RowCounts(9950, 12, 3, 5),
    {"amount": 12, "status": 3},
    (),
    (CHANGED, NULL),
)
GUIDE = Path(__file__).parents[3] / "docs/how-to/change-a-pipeline.md"


@pytest.mark.parametrize(
    ("words", "request_of"),
    [
        ([], DiffRequest("orders")),
        (["--version", "41", "--version", "42", "--key", "id,at"], DiffRequest("orders", (41, 42), ("id,at",))),
        (
            ["--other-project", "../b", "--other-profile", "prod", "--rows", "0"],
            DiffRequest("orders", other_project="../b", other_profile="prod", examples=0),
        ),
    ],
)
def test_the_options_make_the_request(cli, words, request_of):
    code, out, _ = cli("diff", "orders", *words, "--output", "json")

    assert (code, cli.project.asked) == (0, [("diff", request_of)])
    assert json.loads(out)["equal"] is True


def test_a_difference_has_the_exit_code_1(cli):
    cli.project.found = DOCUMENTED

    code, out, _ = cli("diff", "orders", "--output", "json")

    assert (code, json.loads(out)["rows"]["changed"]) == (1, 12)


def test_the_output_is_the_one_in_the_guide():
    assert "\n".join(diff_lines(DOCUMENTED, None)) in GUIDE.read_text(encoding="utf-8")


TERMINAL = """\
odd\\x1b[31m
  - version 41  9,965 rows  2026-11-28 10:00:00 UTC  MERGE
  + version 42  9,967 rows  2026-11-28 11:30:00 UTC  MERGE
rows matched by id (the keys of AUTO CDC)
compared as text, because the types have no common type: note

rows
    9,960  unchanged
  ~     1  changed
  -     4  only in version 41
  +     6  only in version 42
    1 key is repeated: its rows count as removed and added, not as changed

columns that differ in changed rows
  1  a\\x1b

~ changed
id    column   version 41                   version 42
----  -------  ---------------------------  ---------------------------
1003  status   ""                           "paid "
      address  …e, zip: 12345, country: N…  …e, zip: 12346, country: N…

- only in version 41 (1 of 4)
times  amount  status
-----  ------  ------
    2       1  null

repeated keys
id    rows in version 41  rows in version 42
----  ------------------  ------------------
null  0                   2

read 2 of 40 files (1.2 MiB of 300.0 MiB) and 3 of 41 files (1.3 MiB of 301.0
    MiB); both versions share the other 38 files"""


def test_a_terminal_shows_what_differs_in_long_values():
    address = {"street": "Long Street 12, somewhere", "zip": "12345", "country": "Norway, far in the north"}
    diff = TableDiff(
        "odd\x1b[31m",
        FIRST,
        SECOND,
        ("id",),
        KeyOrigin.AUTO_CDC,
        rows=RowCounts(9960, 1, 4, 6, 1),
        columns={"a\x1b": 1},
        compared_as_text=("note",),
        examples=(
            Example(
                ExampleKind.CHANGED,
                {"id": 1003},
                {"status": "", "address": address},
                {"status": "paid ", "address": {**address, "zip": "12346"}},
            ),
            Example(ExampleKind.ONLY_FIRST, {}, {"amount": 1, "status": None}, rows=(2, 0)),
            Example(ExampleKind.REPEATED_KEY, {"id": None}, rows=(0, 2)),
        ),
    )

    assert "\n".join(diff_lines(diff, 80)) == TERMINAL
