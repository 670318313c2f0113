"""Makes a design, asks what is open, and writes its files."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from headrace.assistant.design.answers import with_answer
from headrace.assistant.design.design import Design, make_design
from headrace.assistant.design.parse import parse_requirements
from headrace.assistant.design.questions import Question, open_questions
from headrace.assistant.design.requirement_keys import ERRORS
from headrace.assistant.design.requirements import Column, Requirements
from headrace.assistant.design.sample_schema import columns_of_sample
from headrace.assistant.design.sampling.compare import compare
from headrace.assistant.design.sampling.finding import Proposal
from headrace.atomic_write import replace_file
from headrace.cli.design_sample_text import Sampled, sampled_lines
from headrace.cli.invocation import Invocation
from headrace.delta_log.lateness import measure_lateness
from headrace.errors import PipelineError, Problems
from headrace.model.lateness import Lateness
from headrace.settings.document import read_text

_DONE, _OPEN = 0, 2
_COMMITS = 1000
# Loaded by name, because it loads the readers of files.
_SAMPLES = "headrace.cli.design_samples"


def print_questions(invocation: Invocation, file: Path, samples: Sequence[str]) -> int:
    """Print the open questions, after what samples propose; 2 if one of them needs an answer."""
    sampled = _sampled(_requirements(file), samples)
    found = open_questions(sampled.requirements)
    lines = [*sampled_lines(sampled), *(line for question in found for line in (*_question_lines(question), ""))]
    needed = sum(question.is_needed for question in found)
    lines.append(f"{len(found)} open, {needed} without a default" if found else "no open questions")
    value = {"questions": [question.to_json() for question in found], "open": len(found), **sampled.to_json()}
    invocation.result("\n".join(lines), value)
    return _OPEN if needed else _DONE


def run(
    invocation: Invocation, file: Path, out: Path | None, modes: tuple[bool, bool, bool], samples: Sequence[str]
) -> int:
    """Make the design, with what samples propose, and write its files if there is a folder."""
    ask, defaults, force = modes
    if ask:
        _ask(invocation, file, samples)
    sampled = _sampled(_requirements(file), samples)
    requirements = sampled.requirements
    measured = _measured(requirements, file)
    made = make_design(requirements, defaults=defaults, measured=measured, findings=sampled.findings)
    written = None if out is None else _write(_without_own_file(made.files, out, file), out, force=force)
    value: dict[str, Any] = {**made.to_json(), **sampled.to_json()}
    if written is not None:
        value["written"] = written
    invocation.result("\n".join([*sampled_lines(sampled), *_summary(made, out, written)]), value)
    return _DONE


def _requirements(file: Path) -> Requirements:
    """The requirements in a file.

    Raises:
        PipelineError, Problems: it cannot be read, or is wrong.
    """

    def sample_columns(path: str) -> tuple[Column, ...]:
        return columns_of_sample(read_text(file.parent / path, ERRORS), path)

    return parse_requirements(read_text(file, ERRORS), file.name, sample_columns)


def _measured(requirements: Requirements, file: Path) -> Lateness | None:
    """The lateness of past events, if the requirements name a table of them.

    Raises:
        PipelineError: DESIGN.NOT_MEASURED, LATENESS.NO_TIME.
    """
    table = requirements.lateness.measure_from
    column = next((source.event_time for source in requirements.sources if source.event_time), None)
    if table is None or column is None:
        return None
    path = file.parent / table
    if not (path / "_delta_log").is_dir():
        raise PipelineError("DESIGN.NOT_MEASURED", table=table)
    dropped = 1 - requirements.lateness.share
    return measure_lateness(str(path), table, column, _COMMITS, dropped, time.time())


def _sampled(requirements: Requirements, samples: Sequence[str]) -> Sampled:
    """The requirements with what samples propose.

    Raises:
        PipelineError: DESIGN.SAMPLE.
        Problems: DESIGN.SAMPLE_DIFFERS.
    """
    if not samples:
        return Sampled(requirements)
    measures = import_module(_SAMPLES).measure_samples(requirements, samples)
    return Sampled(*compare(requirements, measures), measures)


def _ask(invocation: Invocation, file: Path, samples: Sequence[str]) -> None:
    """Ask each open question until none is left or the input ends; each answer is written at once.

    What samples propose is the default of its question. An answer that is wrong is reported, and asked again.
    """
    proposals = _sampled(_requirements(file), samples).findings.by_path
    while questions := open_questions(_requirements(file)):
        question = _with_proposal(questions[0], proposals.get(questions[0].id))
        invocation.say("\n".join([*_question_lines(question), _prompt(question)]))
        answer = _answer(question)
        if answer is None:
            return
        before = read_text(file, ERRORS)
        replace_file(file.absolute(), with_answer(before, question, answer))
        try:
            _requirements(file)
        except Problems as problems:
            replace_file(file.absolute(), before)
            if not sys.stdin.isatty():
                raise
            for problem in problems:
                invocation.say(problem.render())


def _with_proposal(question: Question, proposal: Proposal | None) -> Question:
    if proposal is None:
        return question
    return replace(question, default=proposal.answer, consequence=f"Proposed from a sample. {proposal.figure}")


def _answer(question: Question) -> str | None:
    """The next line of the input; an empty one is the default. None at the end of the input."""
    while line := sys.stdin.readline():
        if answer := line.strip() or question.default:
            return answer
    return None


def _prompt(question: Question) -> str:
    return "  answer:" if question.default is None else "  answer, or Enter for the default:"


def _question_lines(question: Question) -> Iterator[str]:
    yield f"{question.id}: {question.text}"
    yield f"  why: {question.why}"
    if question.default is not None:
        yield f"  default: {question.default}. {question.consequence}"
    yield f"  page: {question.page}"


def _write(files: Mapping[str, str], out: Path, *, force: bool) -> dict[str, list[str]]:
    """Write the files that are new or differ; returns what was done to each.

    Raises:
        Problems: files differ, and *force* is not set; then nothing is written.
        PipelineError: DESIGN.NOT_WRITTEN.
    """
    found: dict[str, list[str]] = {"created": [], "replaced": [], "unchanged": []}
    try:
        for path, text in files.items():
            found[_change(out / path, text)].append(path)
        if found["replaced"] and not force:
            raise Problems([PipelineError("DESIGN.DIFFERS", path=path, folder=out) for path in found["replaced"]])
        for path in (*found["created"], *found["replaced"]):
            (out / path).absolute().parent.mkdir(parents=True, exist_ok=True)
            replace_file((out / path).absolute(), files[path])
    except OSError as error:
        raise PipelineError("DESIGN.NOT_WRITTEN", folder=out, reason=error.strerror or str(error)) from error
    return found


def _without_own_file(files: Mapping[str, str], out: Path, file: Path) -> Mapping[str, str]:
    """The files without the one that the design was made from: its comments and its order stay."""
    return {path: text for path, text in files.items() if (out / path).resolve() != file.resolve()}


def _change(file: Path, text: str) -> str:
    if not file.exists():
        return "created"
    return "unchanged" if file.read_bytes() == text.encode() else "replaced"


def _summary(made: Design, out: Path | None, written: dict[str, list[str]] | None) -> Iterator[str]:
    for decision in made.decisions:
        mark = "  (falls short)" if decision.falls_short else ""
        yield f"{decision.id}{mark}"
        yield f"  {decision.choice}"
        yield f"  why: {decision.reason}"
    yield ""
    still = [criterion for criterion in made.checklist if criterion.open]
    yield f"{len(made.decisions)} decisions, {len(made.files)} files, {len(still)} open points in the checklist"
    if out is None or written is None:
        yield "nothing was written: add --out DIR"
        return
    counts = ", ".join(f"{len(paths)} {what}" for what, paths in written.items() if paths)
    yield f"{out}: {counts}. Next: `cd {out} && headrace validate && pytest && headrace run`"
