"""What assistants use: the verb mcp, and assist install."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sys
from enum import Enum
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from headrace.cli.invocation import Invocation, invocation_of
from headrace.cli.tables import text_table
from headrace.errors import PipelineError
from headrace.mcp.end_of_input import ends_with_sigterm
from headrace.mcp.install.editors import Editor, Launch, install

app = typer.Typer(help="Install tools, an agent and skills into editors.", no_args_is_help=False, add_completion=False)
# Loaded by name: the package mcp is optional, and slow to import.
_SERVER = "headrace.mcp.server"


class Only(str, Enum):
    """A part of the server."""

    KNOWLEDGE = "knowledge"


def mcp(
    context: typer.Context,
    only: Annotated[Only | None, typer.Option("--only", help="Offer only the documents, without a project.")] = None,
    allow_write: Annotated[bool, typer.Option("--allow-write", help="Add tools that write. They ask first.")] = False,  # noqa: FBT002 - an option of the command line
    list_tools: Annotated[bool, typer.Option("--list-tools", help="List the tools and exit.")] = False,  # noqa: FBT002 - the same
) -> None:
    """Serve tools, documents and prompts to assistants over MCP, on stdin and stdout.

    Editors start it (`headrace assist install`). It reads the project, and writes nothing unless you allow it.
    """
    if only is not None and allow_write:
        raise PipelineError("CLI.CONFLICT", first="--only", second="--allow-write")
    invocation = invocation_of(context)
    location, server = invocation.location, _server_module()
    if location.directory is not None and not location.directory.is_dir():
        raise PipelineError("CLI.NO_FOLDER", folder=location.directory)
    server_options = server.ServerOptions(
        server.ProjectChoice(location.directory, location.profile),
        knowledge_only=only is Only.KNOWLEDGE,
        allow_write=allow_write,
    )
    # Stdout belongs to the protocol; the package mcp would log with tracebacks of many lines.
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s", stream=sys.stderr)
    made = server.create_server(server_options, os.environ)
    if list_tools:
        _list_tools(invocation, made)
        return
    if sys.stdin.isatty():
        invocation.say("waiting for a client on stdin; editors start this command themselves")
    with ends_with_sigterm() as got_signal:
        made.run("stdio")
    if got_signal.is_set():
        raise KeyboardInterrupt


def _server_module() -> ModuleType:
    try:
        return import_module(_SERVER)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] in ("mcp", "mcp_types", "pydantic"):
            raise PipelineError("MCP.NOT_INSTALLED") from error
        raise


def _list_tools(invocation: Invocation, server: Any) -> None:
    tools = asyncio.run(server.list_tools())
    rows = [
        (tool.name, "reads" if tool.annotations.read_only_hint else "writes", tool.description.split("\n")[0])
        for tool in tools
    ]
    value = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]
    invocation.result(text_table(("tool", "access", "description"), rows, width=invocation.width), value)


@app.command("install")
def install_files(
    context: typer.Context,
    editor: Annotated[Editor, typer.Argument(metavar="claude|cursor|copilot|codex", help="For which editor.")],
    directory: Annotated[
        Path | None, typer.Option("--dir", metavar="DIR", help="The folder that the editor opens (default: this one).")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what differs from Headrace's texts.")] = False,  # noqa: FBT002 - an option of the command line
    absolute: Annotated[bool, typer.Option("--absolute", help="Write the path of this program.")] = False,  # noqa: FBT002 - the same
    allow_write: Annotated[bool, typer.Option("--allow-write", help="Let the server offer tools that write.")] = False,  # noqa: FBT002 - the same
) -> None:
    """Write the configuration of the MCP servers, an agent and skills into a project.

    Extends configuration files, and keeps what is in them. Run it again after an upgrade.
    """
    invocation = invocation_of(context)
    folder = directory or Path.cwd()
    if not folder.is_dir():
        raise PipelineError("CLI.NO_FOLDER", folder=folder)
    command = str(Path(sys.argv[0]).absolute()) if absolute else "headrace"
    launch = Launch(command, _relative(invocation.location.directory, folder), allow_write)
    written = install(editor, folder, launch, force=force)
    lines = [f"{file.state.value}: {file.path}" for file in written]
    invocation.result("\n".join(lines), [{"file": file.path, "state": file.state.value} for file in written])
    if command == "headrace" and shutil.which(command) is None:
        invocation.say("headrace is not on PATH; if the editor does not find it, use --absolute")


def _relative(project: Path | None, folder: Path) -> str:
    """The project as the servers get it: relative to the folder that the editor opens."""
    if project is None:
        return "."
    if not project.resolve().is_relative_to(folder.resolve()):
        raise PipelineError("ASSIST.OUTSIDE", project=project, folder=folder)
    return project.resolve().relative_to(folder.resolve()).as_posix()
