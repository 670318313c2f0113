"""The server: its tools, resources and prompts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

from headrace import __version__
from headrace.mcp import write_tools
from headrace.mcp.answers import Answers
from headrace.mcp.availability import Reach, ServerAccess
from headrace.mcp.design_tools import DesignTools, write_design
from headrace.mcp.instructions import INSTRUCTIONS, KNOWLEDGE_INSTRUCTIONS
from headrace.mcp.knowledge_tools import KnowledgeTools
from headrace.mcp.monitoring_tools import MonitoringTools
from headrace.mcp.processes import ProjectChoice, VerbProcesses
from headrace.mcp.project_tools import ProjectTools
from headrace.mcp.prompts import add_prompts
from headrace.mcp.redaction import redaction
from headrace.mcp.resources import add_resources
from headrace.mcp.verbs import RunVerb
from headrace.mcp.workflow_tools import WorkflowTools

NAME = "headrace"
# The name that agent files use for the server of a knowledge base.
KNOWLEDGE_NAME = "data-knowledge-base"
_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
# Queries of the project read sources outside.
_READS_SOURCES = ToolAnnotations(read_only_hint=True, open_world_hint=True)
_WRITES = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=True)

ToolFunction = Callable[..., Awaitable[Any]]


@dataclass(frozen=True)
class ServerOptions:
    """What the server offers."""

    project: ProjectChoice = field(default_factory=ProjectChoice)
    knowledge_only: bool = False
    allow_write: bool = False
    reach: Reach = Reach.LOCAL


def create_server(
    options: ServerOptions, environ: Mapping[str, str], run_verb: RunVerb | None = None
) -> MCPServer[Answers]:
    """The server, ready to run.

    Args:
        options: what it offers.
        environ: the environment variables, also of the verbs.
        run_verb: calls verbs; a process for each call by default.
    """
    answers = Answers(run_verb or VerbProcesses(options.project, environ), partial(redaction, options.project, environ))

    @asynccontextmanager
    async def lifespan(_: MCPServer[Answers]) -> AsyncIterator[Answers]:
        yield answers

    server: MCPServer[Answers] = MCPServer(
        KNOWLEDGE_NAME if options.knowledge_only else NAME,
        version=__version__,
        instructions=KNOWLEDGE_INSTRUCTIONS if options.knowledge_only else INSTRUCTIONS,
        lifespan=lifespan,
        log_level="WARNING",
    )
    for tool, hints in _tools(options, answers, environ):
        server.add_tool(tool, annotations=hints)
    add_resources(server, answers, knowledge_only=options.knowledge_only, runs_code=options.reach is not Reach.VIEWER)
    if not options.knowledge_only:
        add_prompts(server)
    return server


def _tools(
    options: ServerOptions, answers: Answers, environ: Mapping[str, str]
) -> Iterator[tuple[ToolFunction, ToolAnnotations]]:
    knowledge, monitoring = KnowledgeTools(answers), MonitoringTools(answers)
    found: list[tuple[ToolFunction, ToolAnnotations]] = [
        (knowledge.get_document, _READS),
        (knowledge.search_documents, _READS),
    ]
    if options.reach is Reach.VIEWER:
        # They show no rows and no code, and run none of the project.
        found += [(tool, _READS) for tool in (monitoring.status, monitoring.doctor, monitoring.check)]
    elif not options.knowledge_only:
        design, project = DesignTools(answers), ProjectTools(answers)
        designing = (design.design_questions, design.design, design.design_diff)
        found += [(tool, _READS) for tool in (*designing, project.lint, project.lateness)]
        sources = (project.validate, project.graph, project.plan, project.explain, project.preview)
        found += [(tool, _READS_SOURCES) for tool in sources]
        found += [
            (tool, _READS)
            for tool in (
                project.sql,
                monitoring.status,
                monitoring.events,
                monitoring.streaming_queries,
                monitoring.query_progress,
                monitoring.doctor,
                monitoring.check,
            )
        ]
        if options.allow_write:
            # Over HTTP, nobody writes code that the next update runs.
            files = (write_design,) if options.reach is Reach.LOCAL else ()
            writing: tuple[ToolFunction, ...] = (
                *files,
                write_tools.run,
                write_tools.backfill,
                write_tools.quarantine_replay,
                write_tools.checkpoints_repair,
            )
            found += [(tool, _WRITES) for tool in writing]
    if not options.knowledge_only:
        names = [tool.__name__ for tool, _ in found] + ["get_workflow", "explain_unavailable_tools"]
        access = ServerAccess(options.allow_write, options.reach)
        guide = WorkflowTools(answers, options.project, environ, tools=names, access=access)
        found = [(guide.get_workflow, _READS), *found, (guide.explain_unavailable_tools, _READS)]
    yield from found
