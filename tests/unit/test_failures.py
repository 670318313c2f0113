"""What a failure is taken for when Java does not answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from py4j.protocol import Py4JNetworkError

from headrace.model.datasets import Flow, PythonQuery
from headrace.model.location import Location
from headrace.model.names import Naming, QualifiedName
from headrace.runtime.retry import retryable
from headrace.spark.failures import failed


@pytest.fixture
def flow():
    return Flow("a", QualifiedName("a"), PythonQuery(lambda: None, Naming()), Location("transformations/a.py", 1))


def test_a_jvm_that_is_gone_is_no_error_of_the_users_code_and_not_tried_again(flow):
    report = failed(flow, Py4JNetworkError("Answer from Java side is empty"), Path("/project"))

    assert report.error.code == "FLOW.JAVA_GONE"
    assert not retryable(report)


def test_a_connection_that_the_users_function_lost_is_tried_again(flow):
    report = failed(flow, ConnectionResetError("by peer"), Path("/project"))

    assert report.error.code == "FLOW.USER_CODE"
    assert retryable(report)
