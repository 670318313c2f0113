"""The verbs that practise streaming tables: practice list, show, answer and prove. They need no project."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer

from headrace.assistant.practice.question import Question, question, questions
from headrace.cli.failures import DONE, FAILED
from headrace.cli.invocation import Invocation, invocation_of
from headrace.cli.tables import text_table

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
