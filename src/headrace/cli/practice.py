"""The verbs that practise streaming tables: practice list, show, answer, prove and exercise."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.assistant.practice.exercise import Exercise, exercise, exercises
from headrace.assistant.practice.question import Question, question, questions
from headrace.cli.failures import DONE, FAILED
from headrace.cli.invocation import Invocation, invocation_of
from headrace.cli.printable import printable
from headrace.cli.tables import text_table
from headrace.errors import PipelineError

app = typer.Typer(
    help="Practice questions with proofs that run, and exercises.", no_args_is_help=False, add_completion=False
)

_NUMBER = "The number of a question."

Number = Annotated[int, typer.Argument(metavar="N", help=_NUMBER)]


@app.command("list")
def list_questions(context: typer.Context) -> None:
    """List the questions."""
    invocation = invocation_of(context)
    lines = [(one.number, one.objective, one.title) for one in questions()]
    text = text_table(("question", "objective", "title"), lines, width=invocation.width)
    invocation.result(text, [one.to_json() for one in questions()])


@app.command("show")
def show_question(context: typer.Context, number: Number) -> None:
    """Show a question and its choices, without the answer."""
    found = question(number)
    choices = "\n".join(f"  {letter}  {choice}" for letter, choice in found.choices.items())
    text = f"{_title(found)}\n\n{found.text}\n\n{choices}\n\nAnswer with `headrace practice answer {number} LETTER`."
    invocation_of(context).result(text, found.to_json())


@app.command("answer")
def answer_question(
    context: typer.Context,
    number: Number,
    letter: Annotated[str, typer.Argument(metavar="LETTER", help="The letter of your choice.")],
) -> int:
    """Check an answer, and explain it.

    Exits with 1 if the answer is wrong.
    """
    found = question(number)
    is_right = found.is_right(letter)
    verdict = "right" if is_right else f"wrong, {letter.upper()} is not the answer"
    lines = [f"{verdict}. {found.answer}: {found.choices[found.answer]}", "", f"  why: {found.why}"]
    lines += [f"  note: {caveat}" for caveat in found.caveats]
    category, _, name = found.page.partition("/")
    lines += [f"  read: `headrace docs get {category} {name}`", f"  proof: `headrace practice prove {number}`"]
    value = {"question": number, "given": letter.upper(), "right": is_right, **found.answer_json()}
    invocation_of(context).result("\n".join(lines), value)
    return DONE if is_right else FAILED


@app.command("prove")
def prove_question(
    context: typer.Context,
    number: Number,
    program: Annotated[bool, typer.Option("--program", help="Print the program of the proof. Runs nothing.")] = False,  # noqa: FBT002 - an option of the command line
) -> int:
    """Run the proof of an answer in Spark, and compare what happens with what is claimed.

    The files of the proof are in a temporary folder. Exits with 1 if a claim does not hold.
    """
    invocation, found = invocation_of(context), question(number)
    if program:
        proof = found.proof
        claims = [{"name": claim.name, "claim": claim.says, "expected": claim.expected} for claim in proof.claims]
        invocation.result(proof.program, {"question": number, "program": proof.program, "claims": claims}, folds=False)
        return DONE
    invocation.say(f"question {number}: running its proof in Spark")
    # Loaded by name, so that the other verbs start without Spark.
    observed = import_module("headrace.practice.proofs").prove_in_scratch(found, os.environ)
    return _show_proof(invocation, found, observed)


@app.command("exercise")
def do_exercise(
    context: typer.Context,
    number: Annotated[
        int | None, typer.Argument(metavar="N", help="The number of an exercise. Default: list them.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write the project to start from into a new folder.")
    ] = None,
    check: Annotated[  # noqa: FBT002 - an option of the command line
        bool, typer.Option("--check", help="Run a copy of your project, and say what is missing.")
    ] = False,
    solution: Annotated[  # noqa: FBT002 - an option of the command line
        bool, typer.Option("--solution", help="Print the solution; with --out, write it; with --check, check it.")
    ] = False,
) -> int:
    """Show an exercise, write its project, or check what you made of it.

    With --check, exits with 1 if a criterion is not met.
    """
    invocation = invocation_of(context)
    if number is None:
        if out is not None or check or solution:
            raise PipelineError("CLI.USAGE", reason="name the number of an exercise")
        return _list_exercises(invocation)
    found = exercise(number)
    if out is not None and check:
        raise PipelineError("CLI.CONFLICT", first="--out", second="--check")
    if out is not None:
        return _write_exercise(invocation, found, out, solved=solution)
    if check:
        return _check_exercise(invocation, found, solved=solution)
    if solution:
        text = "\n".join(f"# {path}\n{content}" for path, content in sorted(found.solution.items()))
        invocation.result(text.rstrip("\n"), {"exercise": number, "files": dict(found.solution)}, folds=False)
    else:
        invocation.result(found.readme.rstrip("\n"), found.to_json(), folds=False)
    return DONE


def _list_exercises(invocation: Invocation) -> int:
    lines = [(one.number, one.objective, one.title) for one in exercises()]
    text = text_table(("exercise", "objective", "title"), lines, width=invocation.width)
    invocation.result(text, [one.to_json() for one in exercises()])
    return DONE


def _write_exercise(invocation: Invocation, found: Exercise, folder: Path, *, solved: bool) -> int:
    written = import_module("headrace.practice.exercise_files").write_exercise(found, folder, solved=solved)
    what = "the solution" if solved else "the project"
    text = (
        f"wrote {what} of exercise {found.number} into {folder}. Next: `cd {shlex.quote(str(folder))}`, read README.md"
    )
    invocation.result(text, {"exercise": found.number, "folder": str(folder), "files": list(written)})
    return DONE


def _check_exercise(invocation: Invocation, found: Exercise, *, solved: bool) -> int:
    folder = invocation.location.directory or Path.cwd()
    invocation.say(f"exercise {found.number}: running a copy of {'the solution' if solved else folder}")
    criteria = import_module("headrace.practice.checks").check_in_scratch(found, folder, solved=solved)
    met = sum(criterion.met for criterion in criteria)
    lines = [f"Exercise {found.number}: {found.title}", ""]
    for criterion in criteria:
        lines.append(printable(f"{'met' if criterion.met else 'NOT MET':<9}{criterion.says}: {criterion.measured}"))
        lines += [] if criterion.met else [f"{'':9}{criterion.advice}"]
    lines += ["", f"{met} of {len(criteria)} criteria are met"]
    value = {"exercise": found.number, "met": met == len(criteria), "criteria": [one.to_json() for one in criteria]}
    invocation.result_redacted("\n".join(lines), value)
    return DONE if met == len(criteria) else FAILED


def _show_proof(invocation: Invocation, found: Question, observed: Sequence[Any]) -> int:
    rows = [(one.claim.says, one.claim.expected, one.value, "yes" if one.holds else "NO") for one in observed]
    holding = sum(one.holds for one in observed)
    table = text_table(("claim", "expected", "observed", "holds"), rows, width=invocation.width)
    text = f"{_title(found)}\n\n{table}\n\n{holding} of {len(observed)} claims hold"
    holds = holding == len(observed)
    value = {"question": found.number, "holds": holds, "claims": [one.to_json() for one in observed]}
    invocation.result(text, value)
    return DONE if holds else FAILED


def _title(found: Question) -> str:
    return f"Question {found.number}: {found.title} ({found.objective})"
