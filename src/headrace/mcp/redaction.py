"""Removes the secrets that the project can see from what the server returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from headrace.errors import PipelineError, Problems
from headrace.mcp.processes import ProjectChoice
from headrace.settings.discover import find_settings
from headrace.settings.load import load_settings
from headrace.settings.secrets import Secrets, has_reference, resolve

Redact = Callable[[str], str]


def redaction(project: ProjectChoice, environ: Mapping[str, str]) -> Redact:
    """A function that replaces secrets in a text: all of the environment and of folders, and those that settings name.

    Without a project, or with wrong settings, it knows those of the environment.
    """
    secrets = Secrets(environ)
    text = ""
    with suppress(PipelineError, Problems, OSError, UnicodeDecodeError):
        file = find_settings(project.folder)
        text = file.read_text(encoding="utf-8")
        secrets = load_settings(file, profile=project.profile, environ=environ).open_secrets(environ)
    for scope in secrets.scopes():
        for key in secrets.list(scope):
            with suppress(PipelineError):
                secrets.get(scope, key)
    for line in filter(has_reference, text.splitlines()):
        with suppress(PipelineError):
            resolve(line, secrets, environ)
    return secrets.redact
