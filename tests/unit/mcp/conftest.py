"""A server whose verbs are answered by the test, and a client in this process."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client.client import Client
from mcp_types import ElicitResult

from headrace.mcp.processes import ProjectChoice
from headrace.mcp.server import ServerOptions, create_server
from headrace.mcp.verbs import QUICK_S, VerbOutput

GRAPH = {"datasets": [{"name": "orders", "kind": "streaming_table", "path": "/s", "private": False}], "flows": []}
OUTCOME = {"update_id": "u", "state": "COMPLETED", "cause": "USER_ACTION", "flows": [], "error": None}
PLAN = {
    "empty": False,
    "tables": [{"dataset": "orders", "change": "clear", "reason": "full refresh"}],
    "views": [],
    "flows": [{"flow": "orders", "dataset": "orders", "decision": "run", "reason": "it has new files"}],
    "losses": [{"dataset": "orders", "rows": 7}],
    "away": [],
}
FLOW = {"flow": "orders", "dataset": "orders", "committed": 4, "problem": {"message": "file 3 is empty"}}
# What each verb prints, by its words that are no options.
DOCUMENTS: dict[str, Any] = {
    "lint": {"files": 1, "findings": []},
    "validate": GRAPH,
    "graph": GRAPH,
    "plan": PLAN,
    "explain": {"code": "LEASE.HELD", "message": "m", "hint": "h"},
    "preview": [{"a": 1}],
    "sql": [{"a": number} for number in range(101)],
    "lateness": {"table": "t", "column": "c", "rows": 9, "rows_late": 1, "suggested_delay_s": 60.0},
    "status": None,
    "events": [],
    "doctor": {"findings": [], "next": None},
    "check": {"criteria": []},
    "design": {
        "decisions": [],
        "datasets": [],
        "mermaid": "",
        "files": [{"path": "pipeline.yml", "text": ""}],
        "changes": 1,
    },
    "run": OUTCOME,
    "backfill": OUTCOME,
    "checkpoints list": [FLOW],
    "checkpoints verify": [FLOW],
    "checkpoints repair": {"moved": ["a"]},
    "quarantine list": [{"dataset": "orders", "rows": 3, "rules": {"valid": 3}}],
    "quarantine replay": OUTCOME,
}
_GROUPS = ("checkpoints", "quarantine")


@dataclass
class FakeVerbs:
    """Answers each verb with a document, and remembers how it was called."""

    documents: dict[str, Any] = field(default_factory=lambda: dict(DOCUMENTS))
    calls: list[list[str]] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)

    async def __call__(self, words: Sequence[str], *, timeout_s: float = QUICK_S, as_json: bool = True) -> VerbOutput:
        assert timeout_s > 0
        self.calls.append(list(words))
        name = " ".join(words[:2]) if words[0] in _GROUPS else words[0]
        if not as_json:
            return VerbOutput(0, self.texts[name])
        found = self.documents[name]
        found = found(words) if callable(found) else found
        return found if isinstance(found, VerbOutput) else VerbOutput(0, json.dumps(found, ensure_ascii=False))

    def fail(self, name: str, code: str, message: str) -> None:
        """Let a verb end with an error."""
        error = {"code": code, "message": message, "detail": None, "hint": "do it", "location": None, "params": {}}
        self.documents[name] = VerbOutput(2, json.dumps({"error": error, "problems": [error]}))


class _CurrentVerbs:
    """The verbs of the running test, for servers that tests share: to make one takes a quarter of a second."""

    verbs: FakeVerbs

    async def __call__(self, words: Sequence[str], **options: Any) -> VerbOutput:
        return await self.verbs(words, **options)


@cache
def shared_server(options: frozenset[str]) -> tuple[Any, _CurrentVerbs]:
    """A server that works on no project."""
    verbs = _CurrentVerbs()
    project = ProjectChoice(Path(os.devnull))
    return create_server(ServerOptions(project, **dict.fromkeys(options, True)), {}, verbs), verbs


@dataclass
class Assistant:
    """A client of a server in this process; the server has a project only if the test names its folder."""

    verbs: FakeVerbs
    folder: Path | None = None
    environ: Mapping[str, str] = field(default_factory=dict)
    # The answer of the user to a question; None for a client that cannot ask.
    answer: ElicitResult | None = None
    mode: str = "auto"
    asked: list[str] = field(default_factory=list)

    def server(self, **options: bool) -> Any:
        if self.folder is None:
            server, current = shared_server(frozenset(options))
            current.verbs = self.verbs
            return server
        return create_server(ServerOptions(ProjectChoice(self.folder), **options), self.environ, self.verbs)

    def use(self, work: Callable[[Client], Any], **options: bool) -> Any:
        """The result of something done with a connected client."""

        async def elicit(_context: Any, params: Any) -> ElicitResult:
            self.asked.append(params.message)
            assert self.answer is not None
            return self.answer

        async def connected() -> Any:
            callback = None if self.answer is None else elicit
            async with Client(self.server(**options), elicitation_callback=callback, mode=self.mode) as client:
                return await work(client)

        return anyio.run(connected)

    def call(self, tool: str, arguments: Mapping[str, Any] | None = None, **options: bool) -> Any:
        """The result of a tool."""
        return self.use(lambda client: client.call_tool(tool, dict(arguments or {})), **options)

    def value(self, tool: str, arguments: Mapping[str, Any] | None = None, **options: bool) -> Any:
        """The structured result of a tool that succeeds."""
        result = self.call(tool, arguments, **options)
        assert not result.is_error, result.content
        return result.structured_content

    def error(self, tool: str, arguments: Mapping[str, Any] | None = None, **options: bool) -> Any:
        """The error of a tool that fails."""
        result = self.call(tool, arguments, **options)
        assert (result.is_error, result.structured_content) == (True, None)
        return json.loads(result.content[0].text)["error"]


@pytest.fixture
def verbs() -> FakeVerbs:
    return FakeVerbs()


@pytest.fixture
def assistant(verbs: FakeVerbs) -> Assistant:
    return Assistant(verbs)
