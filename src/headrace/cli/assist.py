"""What assistants use: the verb mcp, and assist install."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from enum import Enum
from importlib import import_module
from types import ModuleType
from typing import Annotated, Any

import typer

from headrace.cli.invocation import Invocation, invocation_of
from headrace.cli.tables import text_table
from headrace.errors import PipelineError

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
    made.run("stdio")


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
