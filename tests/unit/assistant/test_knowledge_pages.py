"""The pages of the knowledge base: what they refer to exists, and their code is sound."""

from __future__ import annotations

import ast
import re
import shlex
from collections import Counter
from itertools import chain
from pathlib import Path

import pytest
import typer
import yaml
from tests.knowledge_blocks import LANGUAGES, WRITTEN, blocks_of, commands_of, is_query, mentioned_commands_of

from headrace.assistant.knowledge.generated import ERRORS, RULES
from headrace.assistant.knowledge.library import library
from headrace.assistant.knowledge.page import Page
from headrace.assistant.knowledge.page_files import page_of
from headrace.cli.arguments import hoist_global_options
from headrace.cli.main import _app
from headrace.errors import conditions
from headrace.lint.lint_files import lint_text
from headrace.lint.rule_texts import rule_texts
from headrace.settings.load import load_settings

ROOT = Path(__file__).parents[3]
PATHS = {page.path for page in library().pages}
BLOCKS = [block for page in WRITTEN for block in blocks_of(page)]
# The indentation of code on a terminal of 80 columns.
LONGEST_CODE_LINE = 76
FEWEST_SYMPTOMS = {"troubleshooting": 8, "guides": 8}
NAMED_BY_ASSISTANTS = {
    "pipeline/streaming-tables",
    "pipeline/lakeflow-pipelines",
    "medallion-architecture/layer-specifications",
    "medallion-architecture/data-flows",
}


def repeated(names):
    return [name for name, times in Counter(names).items() if times > 1]


def test_each_page_has_a_path_of_its_own():
    assert repeated(page.path for page in library().pages) == []


def test_pages_that_assistants_ask_for_by_name_exist():
    assert PATHS >= NAMED_BY_ASSISTANTS


def test_each_check_leads_to_one_page():
    assert repeated(check for page in WRITTEN for check in page.checks) == []


def test_a_troubleshooting_page_explains_the_check_of_its_name():
    assert [page.path for page in WRITTEN if page.category == "troubleshooting" and page.checks != (page.name,)] == []


def test_what_pages_refer_to_exists():
    missing = {
        page.path: [
            *(code for code in page.errors if code not in conditions()),
            *(rule for rule in page.rules if rule not in rule_texts()),
            *(path for path in page.related if path not in PATHS or path == page.path),
            *(source for source in page.sources if source.startswith("docs/") and not (ROOT / source).is_file()),
        ]
        for page in library().pages
    }

    assert {path: names for path, names in missing.items() if names} == {}


def test_each_page_has_a_title_symptoms_and_sources():
    poor = [
        page.path
        for page in WRITTEN
        if not page.title
        or len(page.symptoms) < FEWEST_SYMPTOMS.get(page.category, 0)
        or repeated(page.symptoms)
        or not page.sources
    ]

    assert poor == []


def test_each_written_page_is_related_to_another_one():
    reached = set(chain.from_iterable(page.related for page in WRITTEN))

    assert [page.path for page in WRITTEN if page.path not in reached] == []


def test_each_error_and_each_rule_has_a_page():
    assert {page.name for page in library().pages if page.category == ERRORS} == set(conditions())
    assert {page.name for page in library().pages if page.category == RULES} == set(rule_texts())


def test_a_page_of_an_error_leads_to_the_pages_that_explain_it():
    assert "troubleshooting/checkpoint-torn" in library().get("errors", "flow.checkpoint_torn").related


def test_a_page_without_front_matter_or_with_an_unknown_field_is_refused():
    with pytest.raises(ValueError, match="a/b has no front matter"):
        page_of("# Title\n", "a", "b")
    with pytest.raises(ValueError, match=r"a/b has the unknown fields \['symptom'\]"):
        page_of("---\ntitle: t\nsymptom: [x]\n---\ntext\n", "a", "b")


def test_front_matter_and_text_of_a_page_are_read():
    page = page_of("---\ntitle: A title\nsymptoms:\n  - it is slow\nchecks: [slow]\n---\n\nText.\n---\n", "a", "b")

    assert page == Page("a", "b", "A title", "Text.\n---\n", symptoms=("it is slow",), checks=("slow",))


def test_blocks_of_code_have_a_known_language_and_fit_a_terminal():
    odd = [block.page for block in BLOCKS if block.language not in LANGUAGES]
    # Lines of a block in a list are cut off by a narrow terminal.
    odd += [page.path for page in WRITTEN if re.search(r"^ +```", page.body, re.MULTILINE)]
    long = [
        f"{block.page}: {line}"
        for block in BLOCKS
        for line in block.text.splitlines()
        # A command stays in one line, so that it can be copied.
        if len(line) > LONGEST_CODE_LINE and block.language != "bash"
    ]

    assert (odd, long) == ([], [])


def test_python_and_sql_of_pages_have_no_lint_violation():
    found = []
    for block in BLOCKS:
        if block.language not in ("python", "sql") or is_query(block):
            continue
        if block.language == "python":
            ast.parse(block.text)
        in_project = block.file.startswith("transformations/")
        result = lint_text(block.text, Path(block.file).suffix, block.page, in_project=in_project)
        found += [f"{block.page}: {finding.rule.id} {finding.line_text}" for finding in result.findings]
        found += [f"{block.page}: {problem.message}" for problem in result.problems]

    assert found == []


def test_settings_of_pages_are_valid(tmp_path):
    file = tmp_path / "pipeline.yml"
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "a.sql").touch()
    for block in BLOCKS:
        if block.language == "yaml":
            file.write_text(yaml.safe_dump({"name": "shop", **yaml.safe_load(block.text)}))
            load_settings(file, environ={})


def test_commands_of_pages_are_accepted_by_the_command_line():
    program = typer.main.get_command(_app())
    refused = [
        f"{page.path}: {command}: {reason}"
        for page in WRITTEN
        for commands, can_be_short in ((commands_of(page), False), (mentioned_commands_of(page), True))
        for command in commands
        if (reason := refusal(program, command, can_be_short))
    ]

    assert refused == []


def refusal(program, command, can_be_short):
    """Why the command line would refuse a command; nothing is run."""
    words = hoist_global_options(shlex.split(command)[1:])
    try:
        context = program.make_context("headrace", list(words))
        while hasattr(context.command, "resolve_command"):
            name, found, rest = context.command.resolve_command(context, [*context._protected_args, *context.args])
            context = found.make_context(name, rest, parent=context)
    except Exception as error:  # noqa: BLE001 - the classes of the parser are private
        is_short = type(error).__name__ == "MissingParameter"
        return None if is_short and can_be_short else f"{type(error).__name__} {getattr(error, 'message', '')}"
    is_known = words[:2] != ["docs", "get"] or "/".join(words[2:]) in PATHS
    return None if is_known else "no such page"
