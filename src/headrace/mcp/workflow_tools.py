"""Tools that guide an assistant: what to do next, and which tools are off."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any

import anyio
from mcp.server.mcpserver import Context
from mcp_types import CallToolResult

from headrace.connectors.java import check_java
from headrace.errors import PipelineError, Problems
from headrace.mcp.answers import Answers, success
from headrace.mcp.availability import ServerAccess, ServerFacts, unavailable_tools
from headrace.mcp.consent import can_ask
from headrace.mcp.processes import ProjectChoice
from headrace.mcp.results import UnavailableTools, Workflow
from headrace.mcp.verbs import VerbFailedError
from headrace.mcp.workflow import ProjectFacts, workflow
from headrace.settings.discover import find_settings
from headrace.settings.load import load_settings
from headrace.settings.source_files import source_files

REQUIREMENTS = "requirements.yml"


class WorkflowTools:
    """The tools about the project and the server as a whole.

    Args:
        answers: calls verbs.
        project: the project of the server.
        environ: the environment variables.
        tools: the names of the tools of the server.
        access: what the server may do.
    """

    def __init__(
        self,
        answers: Answers,
        project: ProjectChoice,
        environ: Mapping[str, str],
        *,
        tools: Sequence[str],
        access: ServerAccess,
    ) -> None:
        self._answers = answers
        self._project = project
        self._environ = environ
        self._tools = tools
        self._access = access

    async def get_workflow(self) -> Annotated[CallToolResult, Workflow]:
        """List the steps from requirements to operation, for this project now. Call this first."""
        steps = workflow(await self._facts(diagnose=True), self._tools)
        following = next((step.step for step in steps if step.state == "next"), None)
        return success(Workflow, {"steps": [step.model_dump() for step in steps], "next": following})

    async def explain_unavailable_tools(self, context: Context) -> Annotated[CallToolResult, UnavailableTools]:
        """Say which tools are off or cannot work now, why, and how to turn them on."""
        problem = None
        try:
            check_java(self._environ)
        except PipelineError as error:
            problem = error.detail.rstrip(".") or error.message
        server = ServerFacts(self._tools, self._access, can_ask(context), problem)
        found = unavailable_tools(await self._facts(diagnose=False), server)
        return success(UnavailableTools, {"tools": [tool.model_dump() for tool in found]})

    async def _facts(self, *, diagnose: bool) -> ProjectFacts:
        folder = self._project.folder
        has_requirements = (folder / REQUIREMENTS).is_file()
        try:
            settings = find_settings(folder)
        except PipelineError:
            return ProjectFacts(has_requirements=has_requirements)
        has_code = False
        with suppress(PipelineError, Problems):
            loaded = load_settings(settings, profile=self._project.profile, environ=self._environ)
            has_code = bool(source_files(loaded))
        has_requirements = has_requirements or (settings.parent / REQUIREMENTS).is_file()
        state = (await self._document(["status"]) or {}).get("state")
        counts: dict[str, int | None] = {}
        if diagnose and state is not None:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._count, counts, "doctor", _is_problem, "findings")
                tasks.start_soon(self._count, counts, "check", _is_unmet, "criteria")
        return ProjectFacts(
            has_settings=True,
            has_requirements=has_requirements,
            has_code=has_code,
            update=state,
            findings=counts.get("doctor"),
            unmet_criteria=counts.get("check"),
        )

    async def _count(
        self, counts: dict[str, int | None], verb: str, counted: Callable[[Mapping[str, Any]], bool], name: str
    ) -> None:
        found = await self._document([verb])
        if found is not None:
            counts[verb] = sum(counted(item) for item in found.get(name, ()))

    async def _document(self, words: Sequence[str]) -> Any:
        """The document of a verb; None if it fails, which its own tool explains."""
        with suppress(VerbFailedError):
            return await self._answers.value(words)
        return None


def _is_problem(finding: Mapping[str, Any]) -> bool:
    return finding.get("severity") != "advice"


def _is_unmet(criterion: Mapping[str, Any]) -> bool:
    return criterion.get("status") != "pass"
