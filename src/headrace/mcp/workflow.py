"""The steps from requirements to a pipeline in operation, for a project as it is now."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from headrace.mcp.results import UnavailableTool, WorkflowStep

KNOWLEDGE_TOOLS = ("get_document", "search_documents")
WRITE_TOOLS = ("write_design", "run", "backfill", "quarantine_replay", "checkpoints_repair")
SESSION_TOOLS = ("validate", "graph", "plan", "explain", "preview", "sql", "streaming_queries", "query_progress")
# Tools that work without a project.
_FREE_TOOLS = (*KNOWLEDGE_TOOLS, "design_questions", "design", "get_workflow", "explain_unavailable_tools")
_UPDATE_TOOLS = ("events", "streaming_queries", "query_progress", "lateness", "doctor")


@dataclass(frozen=True)
class ProjectFacts:
    """What is known of a project without running its code; None for what is unknown.

    ``update`` is the state of the last update, ``findings`` the number of doctor's findings, ``failed_criteria`` the
    number of success criteria that are not met.
    """

    has_settings: bool = False
    has_requirements: bool = False
    has_code: bool = False
    update: str | None = None
    findings: int | None = None
    failed_criteria: int | None = None


@dataclass(frozen=True)
class ServerFacts:
    """What the server offers: its tools, what the client can do, and why there is no usable Java, or None."""

    tools: Collection[str]
    allow_write: bool
    client_can_ask: bool
    java_problem: str | None = None


@dataclass(frozen=True)
class _Step:
    name: str
    is_done: bool
    why: str
    tool: str
    command: str
    document: str


def workflow(project: ProjectFacts, tools: Collection[str]) -> list[WorkflowStep]:
    """The steps in their order; the first that is not done is the next one.

    Args:
        project: what is known of it.
        tools: the names of the tools of this server.
    """
    found: list[WorkflowStep] = []
    has_next = False
    for step in _steps(project):
        state = "done" if step.is_done else "later" if has_next else "next"
        has_next = has_next or state == "next"
        found.append(
            WorkflowStep(
                step=step.name,
                state=state,
                why=step.why,
                tool=step.tool if step.tool in tools else None,
                command=step.command,
                document=step.document,
            )
        )
    return found


def _steps(project: ProjectFacts) -> Iterator[_Step]:
    exists = project.has_settings and project.has_code
    ran, failed = project.update is not None, project.update in ("FAILED", "LOST")
    yield _Step(
        "requirements",
        exists or project.has_requirements,
        "Sources, latency, lateness, state, guarantee and error handling decide the design. Ask for what is missing.",
        "design_questions",
        "headrace design --questions requirements.yml",
        "guides/when-to-use",
    )
    yield _Step(
        "design",
        exists,
        "The design has tables, triggers, watermarks, tests and a runbook, with the reason of each decision.",
        "write_design",
        "headrace design requirements.yml --out .",
        "pipeline/streaming-tables",
    )
    yield _Step(
        "lint",
        ran,
        "Lint finds code that cannot work, before anything runs.",
        "lint",
        "headrace lint",
        "pipeline/lakeflow-pipelines",
    )
    yield _Step(
        "validate",
        ran,
        "Validation reports all problems of the project at once, and writes nothing.",
        "validate",
        "headrace validate",
        "pipeline/lakeflow-pipelines",
    )
    yield _Step(
        "plan",
        ran,
        "The plan shows what an update would do and why.",
        "plan",
        "headrace plan",
        "guides/triggers",
    )
    yield _Step(
        "run",
        ran,
        "An update processes the new data.",
        "run",
        "headrace run",
        "guides/triggers",
    )
    yield _Step(
        "investigate",
        ran and not failed and project.findings == 0,
        _findings_text(project, failed=failed),
        "doctor",
        "headrace doctor",
        "operations/runbook",
    )
    yield _Step(
        "check",
        ran and project.failed_criteria == 0,
        "The checklist shows with evidence whether the pipeline meets its success criteria.",
        "check",
        "headrace check",
        "operations/checklist",
    )
    yield _Step(
        "operate",
        False,
        "Watch status and alerts, and run updates on a schedule.",
        "status",
        "headrace status",
        "operations/runbook",
    )


def _findings_text(project: ProjectFacts, *, failed: bool) -> str:
    if failed:
        return f"The last update is {project.update}. Doctor names the cause and the remedy."
    if project.findings:
        return f"Doctor has {project.findings} finding{'' if project.findings == 1 else 's'}."
    return "Doctor finds what is wrong or at risk."


def unavailable_tools(project: ProjectFacts, server: ServerFacts) -> list[UnavailableTool]:
    """The tools that are off or cannot work now, each once, with the first reason that applies."""
    found: dict[str, UnavailableTool] = {}
    for tool, reason, turn_on in _reasons(project, server):
        found.setdefault(tool, UnavailableTool(tool=tool, reason=reason, turn_on=turn_on))
    return list(found.values())


def _reasons(project: ProjectFacts, server: ServerFacts) -> Iterator[tuple[str, str, str]]:
    if not server.allow_write:
        for tool in WRITE_TOOLS:
            yield (
                tool,
                "The server is read-only.",
                'Start it with --allow-write: "args": ["mcp", "--allow-write"].',
            )
    elif not server.client_can_ask:
        for tool in WRITE_TOOLS:
            yield (
                tool,
                "The client cannot ask you, and nothing is written without your answer.",
                "Use the command line, or a client that supports elicitation.",
            )
    needing = [tool for tool in server.tools if tool not in _FREE_TOOLS]
    if not project.has_settings:
        for tool in (one for one in needing if one not in ("write_design", "lint")):
            yield (
                tool,
                "There is no pipeline.yml in this folder or above it.",
                "Create a project with `headrace design` or `headrace init NAME`, or start the server with --project DIR.",
            )
    if project.update is None:
        for tool in (one for one in needing if one in _UPDATE_TOOLS):
            yield tool, "No update has run, so there is nothing to show.", "Run one: headrace run."
    if server.java_problem is not None:
        for tool in (one for one in needing if one in (*SESSION_TOOLS, *WRITE_TOOLS)):
            yield tool, f"Spark cannot start: {server.java_problem}.", "Install Java 17, or set JAVA_HOME to it."
