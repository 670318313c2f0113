"""The steps from requirements to a pipeline in operation, for a project as it is now."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from headrace.mcp.results import WorkflowStep


@dataclass(frozen=True)
class ProjectFacts:
    """What is known of a project without running its code; None for what is unknown.

    Attributes:
        has_settings: there is a settings file.
        has_requirements: there is a file with requirements.
        has_code: there are files with transformations.
        update: the state of the last update.
        findings: how many errors and warnings doctor has found.
        unmet_criteria: how many success criteria are not met, or unknown.
    """

    has_settings: bool = False
    has_requirements: bool = False
    has_code: bool = False
    update: str | None = None
    findings: int | None = None
    unmet_criteria: int | None = None

    @property
    def exists(self) -> bool:
        """Whether there is a project that can run."""
        return self.has_settings and self.has_code

    @property
    def has_run(self) -> bool:
        """Whether there was an update, which also validated and planned."""
        return self.update is not None


@dataclass(frozen=True)
class _Step:
    name: str
    is_done: Callable[[ProjectFacts], bool]
    why: str
    tool: str
    command: str
    document: str


_STEPS = (
    _Step(
        "requirements",
        lambda project: project.exists or project.has_requirements,
        "Sources, latency, lateness, state, guarantee and error handling decide the design. Ask for what is missing.",
        "design_questions",
        "headrace design --questions requirements.yml",
        "guides/when-to-use",
    ),
    _Step(
        "design",
        lambda project: project.exists,
        "The design has tables, triggers, watermarks, tests and a runbook, with the reason of each decision.",
        "design",
        "headrace design requirements.yml --out .",
        "pipeline/streaming-tables",
    ),
    _Step(
        "lint",
        lambda project: project.has_run,
        "Lint finds code that cannot work, before anything runs.",
        "lint",
        "headrace lint",
        "pipeline/lakeflow-pipelines",
    ),
    _Step(
        "validate",
        lambda project: project.has_run,
        "Validation reports all problems of the project at once, and writes nothing.",
        "validate",
        "headrace validate",
        "pipeline/lakeflow-pipelines",
    ),
    _Step(
        "plan",
        lambda project: project.has_run,
        "The plan shows what an update would do and why.",
        "plan",
        "headrace plan",
        "guides/triggers",
    ),
    _Step(
        "run",
        lambda project: project.has_run,
        "An update processes the new data.",
        "run",
        "headrace run",
        "guides/triggers",
    ),
    _Step(
        "investigate",
        lambda project: project.update not in (None, "FAILED", "LOST") and project.findings == 0,
        "Doctor names what is wrong or at risk, with the remedy.",
        "doctor",
        "headrace doctor",
        "operations/runbook",
    ),
    _Step(
        "check",
        lambda project: project.has_run and project.unmet_criteria == 0,
        "The checklist shows with evidence whether the pipeline meets its success criteria.",
        "check",
        "headrace check",
        "operations/checklist",
    ),
    _Step(
        "operate",
        lambda _: False,
        "Watch status and alerts, and run updates on a schedule.",
        "status",
        "headrace status",
        "operations/runbook",
    ),
)


def workflow(project: ProjectFacts, tools: Collection[str]) -> list[WorkflowStep]:
    """The steps in their order; the first that is not done is the next one.

    Args:
        project: what is known of it.
        tools: the names of the tools of this server.
    """
    following = next(step.name for step in _STEPS if not step.is_done(project))
    return [
        WorkflowStep(
            step=step.name,
            state="next" if step.name == following else "done" if step.is_done(project) else "later",
            why=step.why,
            tool=step.tool if step.tool in tools else None,
            command=step.command,
            document=step.document,
        )
        for step in _STEPS
    ]
