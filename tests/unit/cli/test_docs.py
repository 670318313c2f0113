"""The verbs of the knowledge base."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

from headrace.assistant.knowledge.library import library
from headrace.cli.markdown_text import rendered

PAGE = ("troubleshooting", "checkpoint-torn")


def test_get_prints_the_page_as_markdown_in_a_pipe(cli):
    code, out, _ = cli("docs", "get", *PAGE)

    assert (code, out.splitlines()[0]) == (0, "# A damaged checkpoint")
    assert "headrace docs get guides checkpoints" in out
    assert "- docs/how-to/checkpoints.md" in out


def test_get_prints_one_object_as_json(cli):
    code, out, _ = cli("docs", "get", *PAGE, "--output", "json")

    assert (code, json.loads(out)) == (0, library().get(*PAGE).to_json())


def test_search_prints_the_command_that_shows_each_page(cli):
    code, out, _ = cli("docs", "search", "corrupt", "checkpoint", "--category", "troubleshooting", "--limit", "2")

    assert (code, out.count("headrace docs get troubleshooting")) == (0, 2)


def test_search_prints_hits_as_json(cli):
    _, out, _ = cli("--output", "json", "docs", "search", "late rows", "--limit", "1")

    (hit,) = json.loads(out)
    assert set(hit) == {"category", "name", "title", "snippet", "score"}
    assert (hit["category"], hit["name"]) == ("troubleshooting", "late-dropped")


def test_search_for_what_no_page_has_says_so(cli):
    assert cli("docs", "search", "xyzzy")[:2] == (0, "no page found\n")
    assert cli("--output", "json", "docs", "search", "xyzzy")[:2] == (0, "[]\n")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["get", "guides", "nothing"], "DOCS.UNKNOWN_PAGE"),
        (["get", "nothing", "state"], "DOCS.UNKNOWN_CATEGORY"),
        (["search", "state", "--category", "nothing"], "DOCS.UNKNOWN_CATEGORY"),
        (["search", "state", "--limit", "0"], "CLI.USAGE"),
        (["search"], "CLI.USAGE"),
    ],
)
def test_an_invalid_request_is_refused_with_an_error(cli, words, code):
    exit_code, out, _ = cli("--output", "json", "docs", *words)

    assert (exit_code, json.loads(out)["error"]["code"]) == (2, code)


def test_a_page_fits_the_terminal_and_its_code_stays_whole():
    for page in library().pages:
        code = [line for block in page.body.split("```")[1::2] for line in block.splitlines()[1:]]

        shown = rendered(page.body, 80)

        prose = [line for line in shown.splitlines() if not line.startswith("    ")]
        assert [line for line in prose if cell_len(line) > 80] == []
        assert [line for line in code if line.strip() not in shown] == []


def test_docs_starts_outside_of_a_project_without_heavy_packages(tmp_path: Path):
    heavy = ["pyspark", "pandas", "pyarrow", "deltalake", "sqlglot", "prometheus_client", "rich.markdown"]
    code = (
        "import sys\n"
        "from headrace.cli.entry import main\n"
        "sys.argv = ['headrace', 'docs', 'get', 'guides', 'state']\n"
        "try:\n    main()\n"
        f"finally:\n    print([name for name in {heavy} if name in sys.modules], file=sys.stderr)\n"
    )

    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )

    assert (ran.stdout.splitlines()[0], ran.stderr) == ("# What a stream keeps in its state", "[]\n")
