"""Problems that arise in Spark's workers reach the driver with their code and parameters."""

from __future__ import annotations

import pytest

from headrace.errors import PipelineError, Problems
from headrace.sources.worker_errors import SourceFailed, relay_problems, relayed_problem


def raised_by(function):
    with pytest.raises(SourceFailed) as raised:
        function()
    return str(raised.value)


@relay_problems
def calls():
    raise PipelineError("JDBC.READ", database='a "b"', reason="{x}\nat 1 = 2")


@relay_problems
def yields():
    yield 1
    raise Problems([PipelineError("JDBC.TABLE_MISSING", table="t", database="d")])


def test_a_problem_is_relayed_in_the_text_of_an_exception():
    text = f"Traceback ...\n{raised_by(calls)}\n\nJVM stacktrace: ..."

    assert relayed_problem(text) == ("JDBC.READ", {"database": 'a "b"', "reason": "{x}\nat 1 = 2"})
    assert text.splitlines()[1].startswith('[JDBC.READ] database "a "b"" cannot be read.')


def test_a_problem_in_a_generator_is_relayed_when_it_is_raised():
    rows = yields()

    assert next(rows) == 1
    assert relayed_problem(raised_by(lambda: next(rows))) == ("JDBC.TABLE_MISSING", {"table": "t", "database": "d"})


def test_a_truncated_exception_text_relays_no_problem():
    assert relayed_problem(raised_by(calls)[:-5]) is None


def test_other_exceptions_are_unchanged():
    @relay_problems
    def fails():
        raise KeyError("x")

    with pytest.raises(KeyError):
        fails()
    assert relayed_problem("KeyError: 'x'") is None
