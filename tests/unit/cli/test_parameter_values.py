"""Options and arguments have the values that Typer gives them, also where it is not asked."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

from headrace.cli.parameter_values import with_plain_values


class Form(str, Enum):
    TEXT = "text"
    JSON = "json"


def app(found: list[Any]) -> typer.Typer:
    made = typer.Typer(add_completion=False, rich_markup_mode=None)
    made.callback()(lambda: None)

    @made.command("verb")
    def verb(
        name: Annotated[str, typer.Argument()],
        rest: Annotated[list[str] | None, typer.Argument()] = None,
        folder: Annotated[Path | None, typer.Option("--folder")] = None,
        form: Annotated[Form, typer.Option("--form")] = Form.TEXT,
        since: Annotated[str, typer.Option("--since")] = "start",
        rows: Annotated[int, typer.Option("--rows", min=1)] = 20,
        add: Annotated[list[str] | None, typer.Option("--add")] = None,
        fast: Annotated[bool, typer.Option("--fast/--slow")] = True,  # noqa: FBT002 - an option
    ) -> None:
        found.append((name, rest, folder, form, since, rows, add, fast))

    return made


@pytest.mark.parametrize(
    "words",
    [
        "n",
        "n a b --folder x/../y --form json --since end --rows 3 --add p --add q --slow",
        "",
        "n --form xml",
        "n --rows 0",
        "n --rows many",
        "n --since",
        "--help",
    ],
)
def test_values_and_errors_are_those_of_typer(words, capsys):
    ends = []
    for prepared in (lambda command: command, with_plain_values):
        found: list[Any] = []
        command = prepared(typer.main.get_command(app(found)))
        try:
            code = command(["verb", *words.split()], prog_name="p", standalone_mode=False)
        except Exception as error:  # noqa: BLE001 - the parser's own are private
            code = f"{type(error).__name__}: {error}"
        ends.append((found, [type(value) for values in found for value in values], code, capsys.readouterr()))

    assert ends[0] == ends[1]
    assert ends[0][0] or ends[0][2] or ends[0][3].out
