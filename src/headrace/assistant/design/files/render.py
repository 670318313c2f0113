"""All files of a project, by path."""

from __future__ import annotations

from headrace.assistant.design.blueprint import Blueprint
from headrace.assistant.design.decisions.decision import Decision
from headrace.assistant.design.files.code_modules import code_files
from headrace.assistant.design.files.sample_records import sample_files
from headrace.assistant.design.files.settings_text import gitignore_text, settings_text
from headrace.settings.json_schema import SCHEMA_FILE, schema_text


def render_files(blueprint: Blueprint, decisions: tuple[Decision, ...], delay_s: float) -> dict[str, str]:
    """The files, by path relative to the project."""
    return {
        "pipeline.yml": settings_text(blueprint),
        SCHEMA_FILE: schema_text(),
        ".gitignore": gitignore_text(),
        **code_files(blueprint, delay_s),
        **sample_files(blueprint),
    }
