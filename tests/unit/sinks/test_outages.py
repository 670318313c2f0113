"""Which problems of a sink are an outage, whose end alone will solve them."""

from __future__ import annotations

import pytest

from headrace.errors import PipelineError
from headrace.sinks.outages import is_outage


def problem(code, **more):
    return PipelineError(code, database="crm", name="crm", reason="so it is", **more)


@pytest.mark.parametrize(
    "found",
    [
        problem("JDBC.UNREACHABLE"),
        problem("JDBC.UNREACHABLE", state="57P03"),
        problem("JDBC.BROKEN_OFF"),
        problem("JDBC.BROKEN_OFF", state="57P01"),
        problem("JDBC.BROKEN_OFF", state="08006"),
        problem("SINK.HTTP_DOWN"),
        problem("SINK.HTTP_DOWN", state="503"),
    ],
)
def test_who_does_not_answer_or_goes_down_is_down(found):
    assert is_outage(found)


@pytest.mark.parametrize(
    "found",
    [
        problem("JDBC.UNREACHABLE", state="28P01"),
        problem("JDBC.UNREACHABLE", state="3D000"),
        problem("JDBC.BROKEN_OFF", state="57014"),
        problem("JDBC.BROKEN_OFF", state="40P01"),
        problem("JDBC.BROKEN_OFF", state="53100"),
        problem("SINK.HTTP_DOWN", state="500"),
        problem("JDBC.WRITE", state="23505"),
    ],
)
def test_what_the_same_rows_may_bring_again_is_no_outage(found):
    assert not is_outage(found)
