"""Why a tool is off or cannot work now, and how to turn it on."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from headrace.mcp.results import UnavailableTool
from headrace.mcp.workflow import ProjectFacts

WRITE_TOOLS = ("write_design", "run", "backfill", "quarantine_replay", "checkpoints_repair")
_WITH_SESSION = (
    *("validate", "graph", "plan", "explain", "preview", "sql", "streaming_queries", "query_progress"),
    *("run", "backfill", "quarantine_replay"),
)
_FOR_OPERATORS = (
    *WRITE_TOOLS,
    *_WITH_SESSION,
    *("design_questions", "design", "design_diff", "lint", "lateness", "events"),
)
_WITH_UPDATES = ("events", "streaming_queries", "query_progress", "lateness", "doctor")
_WITHOUT_PROJECT = (
    *("get_document", "search_documents", "design_questions", "design", "design_diff", "write_design", "lint"),
    *("get_workflow", "explain_unavailable_tools"),
)


class Reach(Enum):
    """Who uses the server: somebody on this machine, or over HTTP, with a role."""

    LOCAL = "local"
    VIEWER = "viewer"
    OPERATOR = "operator"


@dataclass(frozen=True)
class ServerAccess:
    """What the server may do.

    Attributes:
        allow_write: whether it may write.
        reach: who uses it.
    """

    allow_write: bool = False
    reach: Reach = Reach.LOCAL


@dataclass(frozen=True)
class ServerFacts:
    """What the server offers.

    Attributes:
        tools: the names of its tools.
        access: what it may do.
        client_can_ask: whether the client can show a question to its user.
        java_problem: why Spark cannot start; None if it can.
    """

    tools: Collection[str]
    access: ServerAccess
    client_can_ask: bool
    java_problem: str | None = None


def unavailable_tools(project: ProjectFacts, server: ServerFacts) -> list[UnavailableTool]:
    """The tools that are off or cannot work now, each once, with the first reason that applies."""
    found: dict[str, UnavailableTool] = {}
    for tools, reason, turn_on in _reasons(project, server):
        for tool in tools:
            found.setdefault(tool, UnavailableTool(tool=tool, reason=reason, turn_on=turn_on))
    return list(found.values())


def _reasons(project: ProjectFacts, server: ServerFacts) -> Iterator[tuple[Sequence[str], str, str]]:
    reach = server.access.reach
    if reach is not Reach.LOCAL:
        yield ("write_design",), "Nobody writes code over HTTP.", "Use an assistant on the machine of the project."
    if reach is Reach.VIEWER:
        turn_on = "Use a token with the role operator: headrace tokens create NAME --role operator."
        yield _FOR_OPERATORS, "The token has the role viewer.", turn_on
    elif not server.access.allow_write:
        turn_on = 'Start it with --allow-write: "args": ["mcp", "--allow-write"].'
        yield WRITE_TOOLS, "The server is read-only.", turn_on
    elif not server.client_can_ask:
        reason = "The client cannot ask you, and nothing is written without your answer."
        yield WRITE_TOOLS, reason, "Use the command line, or a client that supports elicitation."
    if not project.has_settings:
        needing = [tool for tool in server.tools if tool not in _WITHOUT_PROJECT]
        turn_on = "Create a project with headrace design or headrace init, or start the server with --project DIR."
        yield needing, "There is no pipeline.yml in this folder or above it.", turn_on
    if project.update is None:
        needing = [tool for tool in server.tools if tool in _WITH_UPDATES]
        yield needing, "No update has run, so there is nothing to show.", "Run one: headrace run."
    if server.java_problem is not None:
        needing = [tool for tool in server.tools if tool in _WITH_SESSION]
        yield needing, f"Spark cannot start: {server.java_problem}.", "Install Java 17, or set JAVA_HOME to it."
