"""All files of a project, by path."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.assistant.design.blueprint import Blueprint
from headrace.assistant.design.checklist import Criterion
from headrace.assistant.design.decisions.decision import Decision
from headrace.assistant.design.decisions.state import state_estimates
from headrace.assistant.design.files.code_modules import code_files
from headrace.assistant.design.files.mermaid import mermaid
from headrace.assistant.design.files.pages import checklist_page, design_page
from headrace.assistant.design.files.pipeline_tests import test_files
from headrace.assistant.design.files.requirements_text import requirements_text
from headrace.assistant.design.files.runbook import runbook_page
from headrace.assistant.design.files.sample_records import sample_files
from headrace.assistant.design.files.settings_text import gitignore_text, settings_text
from headrace.settings.json_schema import SCHEMA_FILE, schema_text


def render_files(
    blueprint: Blueprint,
    decisions: tuple[Decision, ...],
    criteria: tuple[Criterion, ...],
    delay_s: float,
    marks: Mapping[str, str],
) -> dict[str, str]:
    """The files, by path relative to the project.

    Args:
        blueprint: the datasets.
        decisions: of the design.
        criteria: the checklist.
        delay_s: the delay of watermarks.
        marks: comments on answers that the requirements did not state, by their path.
    """
    return {
        "pipeline.yml": settings_text(blueprint),
        SCHEMA_FILE: schema_text(),
        ".gitignore": gitignore_text(),
        "requirements.yml": requirements_text(blueprint.requirements, marks),
        "design.md": design_page(blueprint, decisions, state_estimates(blueprint, delay_s)),
        "design.mmd": mermaid(blueprint),
        "runbook.md": runbook_page(blueprint),
        "checklist.md": checklist_page(blueprint, criteria),
        **code_files(blueprint, delay_s),
        **test_files(blueprint, delay_s),
        **sample_files(blueprint),
    }
