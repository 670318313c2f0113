"""The verb that shows pipelines as web pages. It starts no JVM."""

from __future__ import annotations

import logging
import os
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from headrace.cli.invocation import invocation_of
from headrace.errors import PipelineError
from headrace.worker.control import DEFAULT_IDLE_MINUTES
from headrace.worker.owned_workers import DEFAULT_MAX_WORKERS, OwnerOptions

# Loaded by name: what it needs is optional, and slow to import.
_SERVER = "headrace.serve.server"
_PACKAGES = ("jinja2", "markupsafe", "starlette", "uvicorn")
_LISTEN = "127.0.0.1:8741"


def serve(
    context: typer.Context,
    also: Annotated[
        list[Path] | None,
        typer.Option("--also", metavar="DIR", help="Another project. Can be repeated."),
    ] = None,
    listen: Annotated[str, typer.Option("--listen", metavar="ADDRESS:PORT", help="Where to listen.")] = _LISTEN,
    root_url: Annotated[
        str | None,
        typer.Option("--root-url", metavar="URL", help="The https:// URL of a proxy in front of it."),
    ] = None,
    proxy_user_header: Annotated[
        str | None,
        typer.Option("--proxy-user-header", metavar="HEADER", help="The header in which the proxy names the user."),
    ] = None,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option("--trusted-proxy", metavar="NETWORK", help="Where the proxy is. Can be repeated."),
    ] = None,
    user: Annotated[
        list[str] | None,
        typer.Option(
            "--user", metavar="NAME=ROLE", help="What a user of the proxy may do; * for others. Can be repeated."
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="PATH", help="The file with the digests of the tokens."),
    ] = None,
    new_token: Annotated[bool, typer.Option("--new-token", help="Replace the token, and print the new one.")] = False,  # noqa: FBT002 - an option of the command line
    read_only: Annotated[bool, typer.Option("--read-only", help="Answer nothing but reading.")] = False,  # noqa: FBT002 - the same
    no_schedules: Annotated[bool, typer.Option("--no-schedules", help="Start no updates.")] = False,  # noqa: FBT002 - the same
    workers: Annotated[
        int,
        typer.Option(
            "--workers", min=0, metavar="N", help="How many warm workers, one a project, may run at a time. 0: none."
        ),
    ] = DEFAULT_MAX_WORKERS,
    idle_minutes: Annotated[
        float, typer.Option("--idle-minutes", min=0.0, metavar="N", help="How long an idle worker stays.")
    ] = DEFAULT_IDLE_MINUTES,
) -> None:
    """Show pipelines as web pages, and start updates by their schedules.

    The pages show what needs attention, the graph, tables, batches and updates. The first start prints a URL to sign
    in. Stop it with Ctrl-C or SIGTERM: it stops the updates that it has started, and waits for them.
    """
    invocation = invocation_of(context)
    own = invocation.location.directory or Path.cwd()
    server = server_module()
    # Requests are not logged: their URLs may have the token.
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s", stream=sys.stderr)
    options = server.ServeOptions(
        folders=(own, *(also or ())),
        listen=listen,
        root_url=root_url,
        profile=invocation.location.profile,
        token_file=token_file,
        new_token=new_token,
        runs_schedules=not no_schedules,
        is_read_only=read_only,
        proxy_user_header=proxy_user_header,
        trusted_proxies=trusted_proxy or (),
        users=user or (),
        owner=OwnerOptions(workers, idle_minutes * 60),
    )
    server.serve(options, os.environ, _say)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def server_module() -> ModuleType:
    """The server, whose packages are optional.

    Raises:
        PipelineError: SERVE.NOT_INSTALLED.
    """
    try:
        return import_module(_SERVER)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] in _PACKAGES:
            raise PipelineError("SERVE.NOT_INSTALLED", packages=(error.name or "").split(".")[0]) from error
        raise
