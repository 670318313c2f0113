"""The pipelines that pages of the knowledge base show are valid; so are their tests and their queries."""

from __future__ import annotations

import re
import runpy
import shlex

import pytest
from tests.knowledge_blocks import WRITTEN, blocks_of, commands_of, is_query, project_of, write_landing

from headrace.errors import PipelineError, Problems

pytestmark = pytest.mark.spark
COMPILES = "tests/unit/assistant/test_knowledge_pages.py::test_python_and_sql_of_pages_have_no_lint_violation"
# Tables of every project, and one that this test has.
EXISTING_TABLES = re.compile(r"\b(?:FROM|DETAIL) (?:orders|system[.]\w+|event_log)")
# Has a test, which runs the pipeline.
TESTED = "guides/testing"
PAGES = [page for page in WRITTEN if any(block.language in ("python", "sql") for block in blocks_of(page))]


@pytest.fixture
def pages_project(make_project, monkeypatch, tmp_path):
    """Makes the project of a page, with the secret that one of them reads."""
    monkeypatch.setenv("HEADRACE_SECRET_KAFKA_PASSWORD", "canary")
    write_landing(tmp_path / "landing")
    return lambda page: make_project(project_of(page, tmp_path / "landing"), {"connectors": ["kafka"]})


@pytest.mark.long(guard=COMPILES)
def test_the_pipelines_of_all_pages_are_valid(pages_project):
    problems = {}
    for page in PAGES:
        try:
            pages_project(page).project.validate()
        except (PipelineError, Problems) as error:
            problems[page.path] = str(error)

    assert problems == {}


@pytest.mark.long(guard=COMPILES)
def test_the_tests_of_a_page_pass(pages_project):
    (page,) = (page for page in PAGES if page.path == TESTED)
    found = runpy.run_path(str(pages_project(page).folder / "tests" / "test_paid.py"))

    tests = [function for name, function in found.items() if name.startswith("test_")]
    assert tests
    for function in tests:
        function(pages_project(page))


@pytest.mark.long(guard=COMPILES)
def test_the_queries_of_pages_can_be_run(pages_project):
    shown = (block.text for page in WRITTEN for block in blocks_of(page) if is_query(block))
    typed = (shlex.split(command) for page in WRITTEN for command in commands_of(page))
    queries = [*shown, *(words[2] for words in typed if words[1] == "sql" and EXISTING_TABLES.search(words[2]))]
    (page,) = (page for page in PAGES if page.path == "troubleshooting/batch-slow")
    pipeline = pages_project(page)
    pipeline.run()

    assert queries
    for query in queries:
        pipeline.sql(query)
