"""Tests of sinks: each row is delivered once, also after a crash."""

from __future__ import annotations

from typing import Any

from headrace.assistant.design.blueprint import Dataset
from headrace.assistant.design.files.python_text import literal
from headrace.assistant.design.files.sample_rows import sample_columns
from headrace.assistant.design.files.sink_code import DELIVERED
from headrace.assistant.design.files.test_rows import GivenRows, constants
from headrace.assistant.design.requirements import Output


def sink_tests(given_rows: GivenRows, dataset: Dataset, output: Output) -> str:
    """The tests of a dataset."""
    read = dataset.reads[0]
    rows: list[Any]
    if dataset.is_real_time:
        rows = _messages(given_rows, dataset)
    else:
        rows = [given_rows.row(dataset, number) for number in range(3)]
    if dataset.is_real_time or not output.where:
        count = f"expected = {len(rows)}"
    else:
        # The condition was parsed: it is one expression.
        query = f"SELECT count(*) AS n FROM {read} WHERE {output.where}"  # noqa: S608 - for the user's own test
        count = f'expected = pipeline.sql({literal(query)}).to_json()[0]["n"]'
    return f'''"""{dataset.name}: each new row is delivered once."""

import shutil

import pytest

from headrace.testing import Crashed

{constants(ROWS=rows)}


@pytest.fixture(autouse=True)
def _no_earlier_deliveries(pipeline):
    # The tests run on a copy of the project, with all that `headrace run` delivered.
    shutil.rmtree(pipeline.folder / "{DELIVERED}", ignore_errors=True)


def delivered(pipeline):
    files = sorted((pipeline.folder / "{DELIVERED}/{dataset.name}").glob("*.json"))
    return [line for file in files for line in file.open()]


def test_each_row_is_delivered_once(pipeline):
    pipeline.given("{read}", ROWS)
    pipeline.run("{dataset.name}")
    {count}
    assert len(delivered(pipeline)) == expected

    pipeline.run("{dataset.name}")

    assert len(delivered(pipeline)) == expected


@pytest.mark.parametrize("failpoint", ["staged", "published", "counted"])
def test_a_crash_repeats_no_delivery(pipeline, failpoint):
    pipeline.given("{read}", ROWS)
    with pytest.raises(Crashed):
        pipeline.crash_at(failpoint).run("{dataset.name}")

    pipeline.restart().run("{dataset.name}")

    {count}
    assert len(delivered(pipeline)) == expected
'''


def _messages(given_rows: GivenRows, dataset: Dataset) -> list[Any]:
    samples = sample_columns(dataset.source, given_rows.blueprint)
    return [{"key": None, "value": literal(samples.row(number)).encode()} for number in range(2)]
