"""The doctor and the checklist as tools of the MCP server, on a project with faults in its files."""

from __future__ import annotations

import os

import anyio
import pytest
from mcp.client.client import Client
from mcp_types import ElicitResult

from headrace.mcp.processes import ProjectChoice
from headrace.mcp.server import ServerOptions, create_server
from headrace.mcp.verbs import QUICK_S, VerbOutput


@pytest.fixture
def connected(shop, tmp_path, monkeypatch, capsys):
    """Calls tools of a server for the shop; its verbs are the command line's own, in this process."""
    from headrace.cli.main import call  # noqa: PLC0415 - the other tests need no command line

    monkeypatch.chdir(shop.folder)

    async def run_verb(words, *, timeout_s=QUICK_S, as_json=True):
        assert timeout_s
        capsys.readouterr()
        code = call(["--project", str(shop.folder), *(["--output", "json"] if as_json else []), *words])
        return VerbOutput(code, *capsys.readouterr())

    async def agrees(context, params):
        del context, params
        return ElicitResult(action="accept", content={"proceed": True})

    def use(*calls):
        async def everything():
            options = ServerOptions(ProjectChoice(shop.folder), allow_write=True)
            async with Client(create_server(options, os.environ, run_verb), elicitation_callback=agrees) as client:
                return [await client.call_tool(name, words) for name, words in calls]

        found = anyio.run(everything)
        assert [result.content for result in found if result.is_error] == []
        return [result.structured_content for result in found]

    return use


def named(diagnosis):
    return [finding["check"] for finding in diagnosis["findings"]]


def test_the_doctor_names_a_torn_checkpoint_first_and_the_repair_of_the_server_ends_it(shop, connected):
    (shop.flow_folder / "0" / "commits" / "1").write_text("")

    (before,) = connected(("doctor", {}))
    repaired, after = connected(("checkpoints_repair", {"flow": "orders"}), ("doctor", {"flow": "orders"}))

    first = before["findings"][0]
    assert (first["check"], first["flow"], first["safe"]) == ("checkpoint-torn", "orders", True)
    assert first["command"] == before["next"] == "headrace checkpoints repair orders"
    assert repaired["outcome"]
    assert "checkpoint-torn" not in named(after)


def test_the_edit_of_a_finding_is_exact_and_ends_it(shop, connected):
    (shop.folder / "pipeline.yml").write_text("name: shop\n")

    (before,) = connected(("doctor", {}))
    (finding,) = (one for one in before["findings"] if one["check"] == "no-monitoring")
    edit = finding["edit"]
    lines = (shop.folder / edit["file"]).read_text().splitlines()
    lines[edit["line"] - 1 : edit["line"]] = edit["text"].splitlines()
    (shop.folder / edit["file"]).write_text("\n".join(lines) + "\n")

    (after,) = connected(("doctor", {}))
    assert "no-monitoring" not in named(after)


def test_the_checklist_has_evidence_for_each_criterion_and_the_command_that_mends_one(shop, connected):
    (shop.flow_folder / "0" / "commits" / "1").write_text("")

    (found,) = connected(("check", {"strict": True}))

    criteria = {one["criterion"]: one for one in found["criteria"]}
    torn = criteria["checkpointing"]
    assert (torn["status"], torn["next"]) == ("fail", "headrace checkpoints repair orders")
    assert "commits/1: the file is empty" in torn["evidence"]
    assert [name for name, one in criteria.items() if not one["evidence"]] == []
