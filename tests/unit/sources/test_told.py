"""Problems that arise in Spark's workers reach the driver with their code and parameters."""

from __future__ import annotations

import pytest

from headrace.errors import PipelineError, Problems
from headrace.sources.worker_errors import SourceFailed, problem_told, telling


def raised_by(function):
    with pytest.raises(SourceFailed) as raised:
        function()
    return str(raised.value)


@telling
def calls():
    raise PipelineError("JDBC.READ", database='a "b"', reason="{x}\nat 1 = 2")


@telling
def yields():
    yield 1
    raise Problems([PipelineError("JDBC.TABLE_MISSING", table="t", database="d")])


def test_a_problem_is_told_through_the_text_of_an_exception():
    text = f"Traceback ...\n{raised_by(calls)}\n\nJVM stacktrace: ..."

    assert problem_told(text) == ("JDBC.READ", {"database": 'a "b"', "reason": "{x}\nat 1 = 2"})
    assert text.splitlines()[1].startswith('[JDBC.READ] database "a "b"" cannot be read.')


def test_a_problem_of_a_generator_is_told_when_it_arises():
    rows = yields()

    assert next(rows) == 1
    assert problem_told(raised_by(lambda: next(rows))) == ("JDBC.TABLE_MISSING", {"table": "t", "database": "d"})


def test_a_text_that_was_cut_off_tells_nothing():
    assert problem_told(raised_by(calls)[:-5]) is None


def test_another_exception_is_left_as_it_is():
    @telling
    def fails():
        raise KeyError("x")

    with pytest.raises(KeyError):
        fails()
    assert problem_told("KeyError: 'x'") is None
