"""The verbs on the tokens of the server. They start no JVM, and need no project."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.invocation import invocation_of
from headrace.cli.printable import printable
from headrace.cli.tables import text_table
from headrace.serve.roles import Role
from headrace.serve.tokens import TokenFile, default_token_file

app = typer.Typer(
    help="Create, list and revoke the tokens that open `headrace serve`.", no_args_is_help=False, add_completion=False
)

_DAY_S = 86_400
_MOST_DAYS = 3650
_Name = Annotated[str, typer.Argument(metavar="TOKEN", help="The name of a token: who has it.")]
_File = Annotated[
    Path | None, typer.Option("--token-file", metavar="PATH", help="The file with the digests of the tokens.")
]


@app.command("create")
def create_token(
    context: typer.Context,
    name: _Name,
    role: Annotated[Role, typer.Option("--role", help="What it may do.")] = Role.VIEWER,
    days: Annotated[
        int | None, typer.Option("--days", min=1, max=_MOST_DAYS, help="For how long. Default: until it is revoked.")
    ] = None,
    token_file: _File = None,
) -> None:
    """Create a token, and show it once. A server that runs takes it at once."""
    invocation = invocation_of(context)
    now = time.time()
    ends_at = None if days is None else now + days * _DAY_S
    text = _file(token_file).add(name, role, now, ends_at)
    until = "" if ends_at is None else f" until {_moment(ends_at)}"
    shown = f"token of {name}, {role.value}{until}; it is not shown again:\n{text}"
    document = {"name": name, "role": role.value, "ends_at": _iso(ends_at), "token": text}
    invocation.result(shown, document, folds=False)


@app.command("list")
def list_tokens(context: typer.Context, token_file: _File = None) -> None:
    """List the tokens: who has them, and what they may do."""
    invocation = invocation_of(context)
    now = time.time()
    found = _file(token_file).known()
    rows = [
        (
            one.name,
            one.role.value,
            _moment(one.made_at) if one.made_at else "",
            "" if one.ends_at is None else _moment(one.ends_at) if one.is_valid(now) else "ended",
        )
        for one in found
    ]
    document = [
        {
            "name": one.name,
            "role": one.role.value,
            "made_at": _iso(one.made_at or None),
            "ends_at": _iso(one.ends_at),
            "is_valid": one.is_valid(now),
        }
        for one in found
    ]
    none = "no tokens; `headrace serve` makes the one of the admin when it starts for the first time"
    table = text_table(("token", "role", "made", "ends"), rows, width=invocation.width) if rows else none
    invocation.result(table, document)


@app.command("revoke")
def revoke_token(context: typer.Context, name: _Name, token_file: _File = None) -> None:
    """Revoke a token: it opens nothing any more, and browsers that signed in with it are signed out."""
    invocation = invocation_of(context)
    _file(token_file).revoke(name)
    invocation.result(printable(f"revoked: {name}"), {"name": name, "state": "revoked"})


def _file(path: Path | None) -> TokenFile:
    return TokenFile(path or default_token_file(os.environ))


def _iso(moment: float | None) -> str | None:
    return None if moment is None else datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")


def _moment(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M:%S} UTC"
