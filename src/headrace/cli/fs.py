"""``headrace fs``, and ``dbfs``: files under the paths that scripts use, as in ``dbutils.fs``."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli.invocation import Invocation, invocation_of
from headrace.errors import PipelineError

app = typer.Typer(help="Work with files under script paths such as dbfs:/data.", no_args_is_help=True)

# A path without a scheme needs this many parts to be deleted recursively.
_MIN_PARTS = 3

_Path = Annotated[str, typer.Argument(metavar="PATH", help="A path such as dbfs:/data, /mnt/data or file:/tmp.")]
_From = Annotated[str, typer.Argument(metavar="FROM", help="The file or folder to copy or move.")]
_To = Annotated[str, typer.Argument(metavar="TO", help="The destination path.")]
_Recursive = Annotated[bool, typer.Option("-r", "--recursive", help="Include a folder's contents.")]
_Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")]
_Long = Annotated[bool, typer.Option("-l", "--long", help="Show sizes, and times in milliseconds since 1970.")]


@app.command()
def ls(context: typer.Context, path: _Path = "dbfs:/", long: _Long = False) -> None:  # noqa: FBT002 - an option
    """List a folder."""
    invocation = invocation_of(context)
    found = _files(invocation).ls(path)
    lines = (f"{item.size:>12} {item.modificationTime:>14} {item.name}" if long else str(item.name) for item in found)
    invocation.result_redacted("\n".join(lines), [item._asdict() for item in found], folds=False)


@app.command()
def cat(context: typer.Context, path: _Path) -> None:
    """Show the first 64 KiB of a file."""
    invocation = invocation_of(context)
    text = _files(invocation).head(path)
    invocation.result_redacted(text, {"path": path, "text": text}, folds=False)


@app.command()
def mkdirs(context: typer.Context, path: _Path) -> None:
    """Create a folder and its parents."""
    _done(context, _files(invocation_of(context)).mkdirs(path), "created", path)


@app.command()
def cp(
    context: typer.Context,
    from_: _From,
    to: _To,
    recursive: _Recursive = False,  # noqa: FBT002 - an option
    overwrite: _Overwrite = False,  # noqa: FBT002 - an option
) -> None:
    """Copy a file, or a folder with -r."""
    files = _files(invocation_of(context))
    if not overwrite and files.has_file(to):
        raise PipelineError("SCRIPT.FILE_EXISTS", path=to)
    _done(context, files.cp(from_, to, recursive), "copied to", to)


@app.command()
def mv(context: typer.Context, from_: _From, to: _To, recursive: _Recursive = False) -> None:  # noqa: FBT002 - an option
    """Move a file, or a folder with -r."""
    _done(context, _files(invocation_of(context)).mv(from_, to, recursive), "moved to", to)


@app.command()
def rm(context: typer.Context, path: _Path, recursive: _Recursive = False) -> None:  # noqa: FBT002 - an option
    """Delete a file, or a folder with -r."""
    if recursive and path.startswith("/") and len(Path(path).parts) < _MIN_PARTS:
        # For the vendor's command, such a path is in DBFS; here it is on this machine.
        raise PipelineError("SCRIPT.TOO_MUCH", path=path)
    if not _files(invocation_of(context)).rm(path, recursive):
        raise PipelineError("SCRIPT.NO_FILE", path=path, place="nothing")
    _done(context, True, "deleted", path)  # noqa: FBT003 - it is deleted


def dbfs() -> None:
    """The entry point of ``dbfs``: the same as ``headrace fs``."""
    sys.argv[1:] = ["fs", *sys.argv[1:]]
    import_module("headrace.cli.main").main()


def _files(invocation: Invocation) -> Any:
    """The ``dbutils.fs`` of a script in this folder: with the storage of its project, or ``./storage``."""
    folder = Path(invocation.location.directory or Path.cwd())
    # By name, so that the other verbs start without it.
    found = import_module("headrace.scripts.script_storage").script_storage_of(
        folder.absolute(), os.environ, profile=invocation.location.profile
    )
    return import_module("headrace.scripts.file_system").files_of(found.layout.root, found.paths, invocation.say)


def _done(context: typer.Context, done: bool, what: str, path: str) -> None:  # noqa: FBT001 - the result of the file system
    invocation_of(context).result_redacted(f"{what} {path}", {"done": done, "path": path})
