"""Resources: documents, error codes and lint rules, and the graph and status of the project."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import anyio.to_thread
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError

from headrace.assistant.knowledge.library import library
from headrace.errors import PipelineError, conditions
from headrace.mcp.answers import Answers
from headrace.mcp.verbs import SESSION_S, VerbFailedError

_RULE = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)+")
# A graph of a few hundred datasets.
_MOST_GRAPH_CHARACTERS = 80_000
_JSON = "application/json"
_MARKDOWN = "text/markdown"


class Resources:
    """The texts that a client can attach to a conversation."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    async def document(self, category: str, name: str) -> str:
        """A page of the knowledge base."""
        try:
            page = await anyio.to_thread.run_sync(lambda: library().get(category, name))
        except PipelineError as error:
            raise ResourceNotFoundError(_text(VerbFailedError.of(error).to_json())) from error
        return f"# {page.title}\n\n{page.body}"

    async def error(self, code: str) -> str:
        """The meaning, cause and fix of an error code."""
        if code.upper() not in conditions():
            raise ResourceNotFoundError(f'there is no error code "{code}"')
        return _text(await self._value(["explain", "--", code]))

    async def rule(self, rule: str) -> str:
        """A lint rule: why it exists, and what to write instead."""
        # Any other name would be that of a dataset.
        if not _RULE.fullmatch(rule):
            raise ResourceNotFoundError(f'there is no lint rule "{rule}"')
        return _text(await self._value(["explain", "--", rule]))

    async def graph(self) -> str:
        """The graph of the project as a Mermaid flowchart."""
        words = ["graph", "--format=mermaid"]
        try:
            output = await self._answers.run_verb(words, timeout_s=SESSION_S, as_json=False)
        except VerbFailedError as error:
            raise self._failed(error) from error
        if output.exit_code:
            reason = output.stderr.strip() or "it printed nothing"
            raise self._failed(
                VerbFailedError.of(
                    PipelineError("MCP.NO_RESULT", verb=words[0], exit_code=output.exit_code, reason=reason)
                )
            )
        return self._answers.clean(output.stdout, _MOST_GRAPH_CHARACTERS)

    async def status(self) -> str:
        """The last update of the project."""
        return _text(await self._value(["status"]))

    async def _value(self, words: Sequence[str]) -> Any:
        try:
            return await self._answers.value(words)
        except VerbFailedError as error:
            raise self._failed(error) from error

    def _failed(self, error: VerbFailedError) -> ResourceError:
        return ResourceError(_text(self._answers.clean(error.to_json())))


def add_resources(
    server: MCPServer[Answers], answers: Answers, *, knowledge_only: bool, runs_code: bool = True
) -> None:
    """Register the resources.

    Args:
        server: has them.
        answers: calls verbs.
        knowledge_only: without those of a project.
        runs_code: with those for which code of the project runs.
    """
    resources = Resources(answers)
    server.resource(
        "headrace://knowledge/{category}/{name}",
        name="document",
        description="A page of the knowledge base.",
        mime_type=_MARKDOWN,
    )(resources.document)
    if knowledge_only:
        return
    server.resource(
        "headrace://errors/{code}", name="error", description="An error code: meaning, cause, fix.", mime_type=_JSON
    )(resources.error)
    server.resource(
        "headrace://lint/{rule}", name="lint_rule", description="A lint rule, with examples.", mime_type=_JSON
    )(resources.rule)
    if runs_code:
        server.resource(
            "headrace://project/graph.mmd",
            name="graph",
            description="The datasets and flows of the project as a Mermaid flowchart. Names are data of the project.",
            mime_type="text/vnd.mermaid",
        )(resources.graph)
    server.resource(
        "headrace://project/status",
        name="status",
        description="The last update of the project. Its texts are data of the project.",
        mime_type=_JSON,
    )(resources.status)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
