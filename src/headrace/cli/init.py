"""The verbs that set up a project, its editor and the shell: init, schema and completion."""

from __future__ import annotations

import re
import runpy
import shutil
from enum import Enum
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from headrace.assistant.design.requirement_keys import requirements_schema, requirements_schema_text
from headrace.atomic_write import replace_file
from headrace.cli.invocation import invocation_of
from headrace.errors import PipelineError
from headrace.settings.json_schema import EDITOR_COMMENT, SCHEMA_FILE, schema_text, settings_schema

DEFAULT_TEMPLATE = "medallion"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,99}")
# The placeholder for the project's name in a template's files.
_PLACEHOLDER = "PROJECT_NAME"
# Package builders omit files that begin with a dot, so a template has this one under another name.
_RENAMED = {"gitignore": ".gitignore"}
# Programs of a template are not modules of this package; the suffix hides them from its checks.
_SUFFIX = ".tmpl"
# The template's program that generates its data; it stays in the project to generate more.
_DATA_PROGRAM = "make_data.py"


def init(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the new folder and pipeline.")],
    template: Annotated[str, typer.Option("--template", metavar="T", help="The project template.")] = DEFAULT_TEMPLATE,
) -> None:
    """Create a new project with sample data, ready to run."""
    invocation = invocation_of(context)
    base = invocation.location.directory or Path.cwd()
    made = make_project(base, name, template)
    value = {"project": str(base / name), "template": template, "files": made}
    invocation.result(f"created {name} with {len(made)} files. Next: `cd {name} && headrace run`", value)


def schema(
    context: typer.Context,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="PATH", help="Write to a file, and create its folder.")
    ] = None,
    requirements: Annotated[  # noqa: FBT002 - an option of the command line
        bool, typer.Option("--requirements", help="The schema of requirements files instead.")
    ] = False,
) -> None:
    """Print the JSON schema of pipeline.yml, with which editors complete and check it.

    `headrace init` writes it into new projects, as .headrace/pipeline.schema.json.
    """
    invocation = invocation_of(context)
    text = requirements_schema_text() if requirements else schema_text()
    if file is None:
        invocation.result(text.rstrip("\n"), requirements_schema() if requirements else settings_schema(), folds=False)
        return
    try:
        file.absolute().parent.mkdir(parents=True, exist_ok=True)
        replace_file(file.absolute(), text)
    except OSError as error:
        raise PipelineError("SETTINGS.SCHEMA_NOT_WRITTEN", path=file, reason=error.strerror or str(error)) from error
    document = "the requirements file" if requirements else "pipeline.yml"
    comment = EDITOR_COMMENT.replace(SCHEMA_FILE, str(file)) if requirements else EDITOR_COMMENT
    text = f"written to {file}. Editors read it if {document} begins with:\n{comment}"
    invocation.result(text, {"file": str(file)})


class Shell(str, Enum):
    """A shell that can complete command lines."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    context: typer.Context,
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="Your shell.")],
) -> None:
    """Print the script that makes a shell complete verbs, options and names.

    Names of datasets and flows are those in the storage. No code of the project runs.
    """
    script = (files("headrace.cli") / "completion" / f"{shell.value}.sh").read_text(encoding="utf-8")
    invocation_of(context).result(script.rstrip("\n"), {"shell": shell.value, "script": script}, folds=False)


def templates() -> tuple[str, ...]:
    """The names of the templates in the package."""
    return tuple(sorted(entry.name for entry in _templates().iterdir() if entry.is_dir()))


def make_project(base: Path, name: str, template: str = DEFAULT_TEMPLATE) -> list[str]:
    """Make the project *name* in *base*; returns its files, relative to it.

    Raises:
        PipelineError: INIT.NAME, INIT.EXISTS, INIT.UNKNOWN_TEMPLATE, or INIT.NOT_WRITTEN (then nothing remains).
    """
    if not _NAME.fullmatch(name):
        raise PipelineError("INIT.NAME", name=name)
    if template not in templates():
        raise PipelineError("INIT.UNKNOWN_TEMPLATE", name=template, known=", ".join(templates()))
    target = base / name
    if target.exists() or target.is_symlink():
        raise PipelineError("INIT.EXISTS", name=name)
    try:
        _write(template, target, name)
    except OSError as error:
        shutil.rmtree(target, ignore_errors=True)
        raise PipelineError("INIT.NOT_WRITTEN", name=name, reason=error.strerror or error) from error
    return sorted(str(file.relative_to(target)) for file in target.rglob("*") if file.is_file())


def _write(template: str, target: Path, name: str) -> None:
    folder = _templates() / template
    for source in sorted(folder.rglob("*")):
        if source.is_file():
            file = target / source.relative_to(folder).with_name(_final_name(source.name))
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(source.read_text(encoding="utf-8").replace(_PLACEHOLDER, name), encoding="utf-8")
    schema = target / SCHEMA_FILE
    schema.parent.mkdir()
    schema.write_text(schema_text(), encoding="utf-8")
    program = target / _DATA_PROGRAM
    if program.is_file():
        runpy.run_path(str(program))["make_data"](target / "data")


def _final_name(name: str) -> str:
    name = name.removesuffix(_SUFFIX)
    return _RENAMED.get(name, name)


def _templates() -> Path:
    return Path(str(files("headrace"))) / "templates"
