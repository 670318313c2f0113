"""Fixtures of the repository, on top of those that the package's own pytest plugin brings."""

from __future__ import annotations

import textwrap

import pytest


@pytest.fixture
def project(make_project):
    """A pipeline of one file; its text may be indented, and ``dp`` and ``F`` are there."""

    def make(text, settings=None, **files):
        head = "from headrace import pipelines as dp\nfrom pyspark.sql import functions as F\n\n"
        named = {path: textwrap.dedent(content) for path, content in files.items()}
        return make_project({"transformations/project.py": head + textwrap.dedent(text), **named}, settings)

    return make
