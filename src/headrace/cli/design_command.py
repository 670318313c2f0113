"""Makes a design, asks what is open, and writes its files."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from headrace import __version__
from headrace.assistant.design.answers import with_answer
from headrace.assistant.design.design import Design
from headrace.assistant.design.questions import Question, open_questions
from headrace.assistant.design.record import RECORD_FILE, DesignRecord
from headrace.assistant.design.requirement_keys import ERRORS
from headrace.assistant.design.sampling.finding import Proposal
from headrace.atomic_write import replace_file
from headrace.cli.design_input import MadeDesign, RequirementsFile, make_from_files, read_requirements, with_samples
from headrace.cli.design_sample_text import sampled_lines
from headrace.cli.invocation import Invocation
from headrace.errors import PipelineError, Problems
from headrace.settings.document import read_text

_DONE, _OPEN = 0, 2


def print_questions(invocation: Invocation, file: RequirementsFile, samples: Sequence[str]) -> int:
    """Print the open questions, after what samples propose; 2 if one of them needs an answer."""
    sampled = with_samples(read_requirements(file), samples)
    found = open_questions(sampled.requirements)
    lines = [*sampled_lines(sampled), *(line for question in found for line in (*_question_lines(question), ""))]
    needed = sum(question.is_needed for question in found)
    lines.append(f"{len(found)} open, {needed} without a default" if found else "no open questions")
    value = {"questions": [question.to_json() for question in found], "open": len(found), **sampled.to_json()}
    invocation.result("\n".join(lines), value)
    return _OPEN if needed else _DONE


def run(
    invocation: Invocation,
    file: RequirementsFile,
    out: Path | None,
    modes: tuple[bool, bool, bool],
    samples: Sequence[str],
) -> int:
    """Make the design, with what samples propose, and write its files if there is a folder."""
    ask, defaults, force = modes
    if ask:
        _ask(invocation, file, samples)
    found = make_from_files(file, out, samples, defaults=defaults)
    made, sampled = found.design, found.sampled
    written = None if out is None else _write(found, out, file.path, force=force)
    value: dict[str, Any] = {**made.to_json(), **sampled.to_json()}
    if written is not None:
        value["written"] = written
    invocation.result("\n".join([*sampled_lines(sampled), *_summary(made, out, written)]), value)
    return _DONE


def _ask(invocation: Invocation, file: RequirementsFile, samples: Sequence[str]) -> None:
    """Ask each open question until none is left or the input ends; each answer is written at once.

    What samples propose is the default of its question. An answer that is wrong is reported, and asked again.
    """
    proposals = with_samples(read_requirements(file), samples).findings.by_path
    while questions := open_questions(read_requirements(file)):
        question = _with_proposal(questions[0], proposals.get(questions[0].id))
        invocation.say("\n".join([*_question_lines(question), _prompt(question)]))
        answer = _answer(question)
        if answer is None:
            return
        before = read_text(file.path, ERRORS)
        replace_file(file.path.absolute(), with_answer(before, question, answer))
        try:
            read_requirements(file)
        except Problems as problems:
            replace_file(file.path.absolute(), before)
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


def _write(made: MadeDesign, out: Path, file: Path, *, force: bool) -> dict[str, list[str]]:
    """Write the files that are new or differ, and the record of the design; returns what was done to each file.

    Files that nobody has edited since the last design are replaced without *force*.

    Raises:
        Problems: files differ, and *force* is not set; then nothing is written.
        PipelineError: DESIGN.NOT_WRITTEN.
    """
    found: dict[str, list[str]] = {"created": [], "replaced": [], "unchanged": []}
    files = without_own_file(made.design.files, out, file)
    try:
        for path, text in files.items():
            found[_change(out / path, text)].append(path)
        edited = [path for path in found["replaced"] if not _is_rendered(made.record, path, out)]
        if edited and not force:
            raise Problems([PipelineError("DESIGN.DIFFERS", path=path, folder=out) for path in edited])
        for path in (*found["created"], *found["replaced"]):
            (out / path).absolute().parent.mkdir(parents=True, exist_ok=True)
            replace_file((out / path).absolute(), files[path])
        (out / RECORD_FILE).absolute().parent.mkdir(parents=True, exist_ok=True)
        replace_file((out / RECORD_FILE).absolute(), DesignRecord.of(made.design, __version__).to_text())
    except OSError as error:
        raise PipelineError("DESIGN.NOT_WRITTEN", folder=out, reason=error.strerror or str(error)) from error
    return found


def _is_rendered(record: DesignRecord | None, path: str, out: Path) -> bool:
    return record is not None and record.is_rendered(path, (out / path).read_bytes())


def without_own_file(files: Mapping[str, str], out: Path, file: Path) -> Mapping[str, str]:
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
