"""Rows are erased only on confirmation, and no output, error or event repeats the values."""

from __future__ import annotations

import io
import json
import sys

import pytest

from headrace.cli.erase import _text
from headrace.model.erasure import Criterion, Erasure, ErasureRequest, PlaceKind, SearchedPlace

REQUEST = ErasureRequest((Criterion(("customer_id",), "4711"),))


class Terminal(io.StringIO):
    """A standard input that is a terminal."""

    def isatty(self):
        return True


def verbs(cli):
    return [asked[0] for asked in cli.project.asked]


def test_a_dry_run_writes_nothing_and_needs_no_confirmation(cli):
    code, out, _ = cli("erase", "--where", "customer_id=4711", "--dry-run")

    assert (code, cli.project.asked) == (0, [("find", REQUEST)])
    assert "nothing was written" in out
    assert "4711" not in out


def test_rows_are_erased_without_a_question_if_it_is_answered_before(cli):
    code, out, _ = cli("erase", "--where", "customer_id=4711", "--yes", "--keep-files", "--output", "json")

    assert (code, verbs(cli)) == (0, ["erase"])
    found = json.loads(out)
    assert (found["erased"], found["kept_files"], found["rows"]) == (True, True, 2)
    assert "4711" not in out


def test_without_a_terminal_to_ask_on_nothing_is_erased(cli):
    code, out, _ = cli("erase", "--where", "customer_id=4711", "--output", "json")

    assert (code, json.loads(out)["error"]["code"], cli.project.asked) == (4, "ERASE.NOT_CONFIRMED", [])


@pytest.mark.parametrize(("answer", "asked", "code"), [("y", ["find", "erase"], 0), ("n", ["find"], 130)])
def test_on_a_terminal_the_rows_are_shown_and_the_user_is_asked(cli, monkeypatch, answer, asked, code):
    monkeypatch.setattr(sys, "stdin", Terminal(f"{answer}\n"))

    assert cli("erase", "--where", "customer_id=4711")[0] == code
    assert verbs(cli) == asked


def test_values_can_come_from_a_file_or_the_standard_input(cli, monkeypatch, tmp_path):
    (tmp_path / "who").write_text("customer_id=4711\n\nemail=a=b\n")
    monkeypatch.setattr(sys, "stdin", io.StringIO("customer_id=4711\n"))

    cli("erase", "--where-file", "who", "--dataset", "orders, lines", "--dry-run")
    cli("erase", "--where-file", "-", "--yes")

    both = ErasureRequest((*REQUEST.criteria, Criterion(("email",), "a=b")), ("orders", "lines"))
    assert cli.project.asked == [("find", both), ("erase", REQUEST)]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ([], "ERASE.NO_CRITERION"),
        (["--where", "4711"], "ERASE.CRITERION"),
        (["--where-file", "nowhere"], "ERASE.WHERE_FILE"),
    ],
)
def test_a_wrong_condition_is_refused_without_repeating_it(cli, words, code):
    exit_code, out, err = cli("erase", *words, "--yes", "--output", "json")

    assert (exit_code, json.loads(out)["error"]["code"], cli.project.asked) == (2, code, [])
    assert "4711" not in out + err


def test_the_report_names_what_was_not_erased_and_fits_eighty_columns():
    erasure = Erasure(
        ("email",),
        is_done=True,
        keeps_files=False,
        places=(SearchedPlace(PlaceKind.TABLE, "orders", 3, 2, 5),),
        not_searched=(("revenue", "has no column email"),),
        recomputed=("revenue",),
        state=("buyers",),
        mentions=("/storage/system/logs/spark.log",),
    )

    text = _text(erasure, 80)

    for part in ("revenue: has no column email", "flow buyers", "/storage/system/logs/spark.log", "erased 3 rows"):
        assert part in text
    assert max(map(len, text.splitlines())) <= 80
