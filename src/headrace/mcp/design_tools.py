"""Tools that design a pipeline from requirements, and ask the user for what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from mcp.server.mcpserver import AcceptedElicitation, Elicit, ElicitationResult, Resolve
from mcp_types import CallToolResult
from pydantic import BaseModel, Field, create_model

from headrace.errors import PipelineError, Problems
from headrace.mcp.answers import Answers
from headrace.mcp.consent import AskingContext, Consent, NotAsked, Question, answers_of, can_ask, question, refusal
from headrace.mcp.requirements_file import Requirements, check_inside, check_paths, requirements_file, with_answers
from headrace.mcp.results import Design, DesignDifference, Questions, Written
from headrace.mcp.verbs import VerbFailedError

# Decisions and generated files are ours, and are not cut.
DESIGN_CHARACTERS = 60_000
_REQUIREMENTS = "requirements.yml"
_RULE_WORDS = "sources, latency, lateness, state, guarantee, on_error, history, outputs"

Given = Annotated[Requirements, Field(description=f"The requirements: an object, or a YAML text, with {_RULE_WORDS}.")]
Samples = Annotated[
    str | None,
    Field(
        description="A file or folder with records of a source (JSON, CSV, Parquet, Avro, ORC), relative to the "
        "project of the server; SOURCE=PATH if there are several sources. Columns, event time, keys, duplicates and "
        "lateness are measured in it, and proposed where the requirements do not say."
    ),
]
Compared = Annotated[
    str, Field(description="Folder of the project with its requirements.yml, relative to the project of the server.")
]
Directory = Annotated[str, Field(description="Where the project is written, relative to the project of the server.")]


class Missing(BaseModel):
    """The answers to the questions that have no default; each question is a field."""

    def by_path(self) -> dict[str, str]:
        """The answers by the path of each question."""
        fields = type(self).model_fields
        return {str(fields[name].alias): str(value) for name, value in self}


async def ask_for_missing(
    context: AskingContext, requirements: Requirements, sample: str | None
) -> Elicit[Missing] | Missing:
    """Ask the user what the requirements and the sample leave open and what has no default."""
    if not can_ask(context):
        return Missing()
    try:
        with requirements_file(requirements) as file:
            words = [*_design_words(requirements, sample), "--questions", "--", str(file)]
            found = await answers_of(context).value(words)
    except (VerbFailedError, PipelineError):
        # The verb itself reports what is wrong.
        return Missing()
    needed = [one for one in found["questions"] if one.get("needed")]
    if not needed:
        return Missing()
    fields: dict[str, Any] = {
        f"answer_{number}": (str, Field(alias=one["id"], title=one["text"], description=one.get("why")))
        for number, one in enumerate(needed)
    }
    names = ", ".join(one["id"] for one in needed)
    return Elicit(
        f"The design needs answers that have no default: {names}.", create_model("Answers", __base__=Missing, **fields)
    )


class DesignTools:
    """The tools that design; they write nothing."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    async def design_questions(
        self, requirements: Given, sample: Samples = None
    ) -> Annotated[CallToolResult, Questions]:
        """List what the requirements leave open, each with its default and the consequence. Ask the user these."""
        try:
            words = _design_words(requirements, sample)
        except PipelineError as error:
            return self._answers.failure(error)
        with requirements_file(requirements) as file:
            return await self._answers.result(Questions, [*words, "--questions", "--", str(file)])

    async def design(
        self,
        requirements: Given,
        missing: Annotated[ElicitationResult[Missing], Resolve(ask_for_missing)],
        sample: Samples = None,
    ) -> Annotated[CallToolResult, Design]:
        """Design a pipeline: decisions with reasons, datasets, state, diagram, files, checklist. Writes nothing."""
        try:
            complete = with_answers(requirements, answers_in(missing))
            words = _design_words(complete, sample)
        except (PipelineError, Problems) as error:
            return self._answers.failure(error)
        with requirements_file(complete) as file:
            words += ["--defaults", "--", str(file)]
            return await self._answers.result(Design, words, most_characters=DESIGN_CHARACTERS)

    async def design_diff(
        self, directory: Compared = ".", sample: Samples = None
    ) -> Annotated[CallToolResult, DesignDifference]:
        """Show what today's rules and its requirements.yml would change in a project that a design made."""
        try:
            check_inside(directory)
            options = _sample_words(sample)
        except PipelineError as error:
            return self._answers.failure(error)
        words = ["design", "--diff", "--defaults", *options, "--", f"{directory}/{_REQUIREMENTS}"]
        return await self._answers.result(DesignDifference, words, most_characters=DESIGN_CHARACTERS)


def answers_in(outcome: ElicitationResult[Missing]) -> Mapping[str, str]:
    """The answers that the user gave; none if the user was not asked, or did not answer."""
    return outcome.data.by_path() if isinstance(outcome, AcceptedElicitation) else {}


async def ask_to_write(
    context: AskingContext,
    requirements: Requirements,
    directory: str,
    sample: str | None,
    missing: Annotated[ElicitationResult[Missing], Resolve(ask_for_missing)],
) -> Question:
    """Show the files of the design."""
    answers = answers_of(context)
    try:
        check_inside(directory)
        complete = with_answers(requirements, answers_in(missing))
        with requirements_file(complete) as file:
            words = [*_design_words(complete, sample), "--defaults", "--", str(file)]
            found = await answers.value(words, most_characters=DESIGN_CHARACTERS)
    except VerbFailedError as error:
        return NotAsked(error)
    except (PipelineError, Problems) as error:
        return NotAsked(VerbFailedError.of(error))
    shown = "\n".join(f"write {directory}/{file['path']}" for file in found["files"])
    return question(context, shown, _shown_words(directory))


async def write_design(
    context: AskingContext,
    requirements: Given,
    missing: Annotated[ElicitationResult[Missing], Resolve(ask_for_missing)],
    consent: Annotated[ElicitationResult[Consent], Resolve(ask_to_write)],
    directory: Directory = ".",
    sample: Samples = None,
) -> Annotated[CallToolResult, Written]:
    """Write the project of a design: settings, code, tests, diagram, runbook. Shows the files, and asks first."""
    answers = answers_of(context)
    refused = refusal(answers, consent, _shown_words(directory))
    if refused is not None:
        return refused
    complete = with_answers(requirements, answers_in(missing))
    with requirements_file(complete) as file:
        words = [*_design_words(complete, sample), "--defaults", f"--out={directory}", "--", str(file)]
        return await answers.result(Written, words, lambda found: {"outcome": found}, most_characters=DESIGN_CHARACTERS)


def _shown_words(directory: str) -> list[str]:
    # The file of the requirements has another name in each call, and a question must stay the same.
    return ["design", _REQUIREMENTS, "--out", directory]


def _design_words(requirements: Requirements, sample: str | None) -> list[str]:
    """The verb with the options of all its calls.

    Raises:
        PipelineError: MCP.OUTSIDE.
    """
    check_paths(requirements)
    # Verbs run in the folder of the project, and the file of the requirements is elsewhere.
    return ["design", "--relative-to=.", *_sample_words(sample)]


def _sample_words(sample: str | None) -> list[str]:
    """The option of a sample; it must be inside of the project."""
    if sample is None:
        return []
    # The verb reads the whole as a path if it names no source.
    for path in (sample, sample.partition("=")[2]):
        check_inside(path)
    return [f"--sample={sample}"]
