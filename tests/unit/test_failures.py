"""What a failure is taken for when Java does not answer."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql.avro.functions import from_avro

from headrace.errors import PipelineError, Problems
from headrace.model.datasets import Flow, PythonQuery
from headrace.model.location import Location
from headrace.model.names import Naming, QualifiedName
from headrace.runtime.retry import retryable
from headrace.sources.confluent import BadPayload, RegistryUnavailable
from headrace.spark.errors.kafka_errors import is_of_kafka, kafka_problem
from headrace.spark.errors.spark_errors import definition_problem, failure_report
from headrace.spark.jvm.causes import Cause


@pytest.fixture
def flow():
    return Flow("a", QualifiedName("a"), PythonQuery(lambda: None, Naming()), Location("transformations/a.py", 1))


def test_a_lost_jvm_is_not_an_error_of_user_code_and_is_not_retried(flow):
    report = failure_report(flow, Py4JNetworkError("Answer from Java side is empty"), Path("/project"))

    assert report.error.code == "FLOW.JAVA_GONE"
    assert not retryable(report)


def test_a_connection_lost_in_user_code_is_retried(flow):
    report = failure_report(flow, ConnectionResetError("by peer"), Path("/project"))

    assert report.error.code == "FLOW.USER_CODE"
    assert retryable(report)


@pytest.mark.parametrize(
    "code",
    [
        "AUTO_LOADER.SAMPLE_BROKEN_OFF",
        "AUTO_LOADER.STORE_FAILS",
        "KAFKA.UNREACHABLE",
        "CONFLUENT.UNREACHABLE",
        "JDBC.UNREACHABLE",
    ],
)
def test_a_server_that_is_unavailable_before_a_query_starts_is_retried(flow, code):
    report = failure_report(
        flow,
        PipelineError(code, flow="a", url="", database="", address="", reason="", servers="", path=""),
        Path("/project"),
    )

    assert (report.error.code, retryable(report)) == (code, True)


@pytest.mark.parametrize(("others", "again"), [([], True), (["GRAPH.EMPTY"], False)], ids=["alone", "with another"])
def test_problems_are_retried_only_if_all_of_them_are_temporary(flow, others, again):
    unavailable = PipelineError("CONFLUENT.UNREACHABLE", reason="")

    report = failure_report(flow, Problems([unavailable, *map(PipelineError, others)]), Path("/project"))

    assert (report.error.code, retryable(report)) == (next(iter(others), unavailable.code), again)


@pytest.mark.parametrize("name", ["kafka", "avro"])
def test_a_format_of_a_missing_connector_is_reported_with_the_line_to_add(flow, name):
    error = AnalysisException(f"Failed to find data source: {name}. Deploy the application as per the guide.")

    problem = definition_problem(flow, error, Path("/project"))

    assert problem.code == "CONNECTOR.NOT_NAMED"
    assert f"connectors: [{name}]" in problem.hint


@pytest.mark.parametrize("argument", ["subject", "schemaRegistryAddress"])
def test_vendor_arguments_for_a_registry_are_reported_with_the_function_to_use(flow, argument):
    with pytest.raises(TypeError) as raised:
        from_avro("value", "", **{argument: "orders-value"})

    problem = definition_problem(flow, raised.value, Path("/project"))

    assert (problem.code, problem.params["argument"]) == ("CONFLUENT.VENDORS_FUNCTION", argument)
    assert "from_confluent(data, subject, schemaRegistryAddress)" in problem.hint


def test_an_unknown_format_is_not_mistaken_for_a_connector(flow):
    error = AnalysisException("Failed to find data source: kafak.")

    assert definition_problem(flow, error, Path("/project")).code == "FLOW.ANALYSIS"


@pytest.mark.parametrize(
    ("java_class", "code", "again"),
    [
        ("org.apache.kafka.common.errors.SaslAuthenticationException", "KAFKA.CREDENTIALS", False),
        ("org.apache.kafka.common.errors.SslAuthenticationException", "KAFKA.CERTIFICATE", False),
        ("org.apache.kafka.common.errors.TopicAuthorizationException", "KAFKA.NOT_ALLOWED", False),
        ("org.apache.kafka.common.errors.TimeoutException", "KAFKA.UNREACHABLE", True),
        ("org.apache.kafka.common.config.ConfigException", "KAFKA.CONFIGURATION", False),
        ("org.apache.kafka.common.KafkaException", "KAFKA.CONFIGURATION", False),
    ],
)
def test_kafka_client_errors_are_classified_and_their_messages_are_left_out(flow, java_class, code, again):
    causes = [
        Cause(None, None, "failed", "ExecutionException", "java.util.concurrent.ExecutionException"),
        Cause(None, None, "password=hunter2", java_class.rpartition(".")[2], java_class),
    ]

    report = kafka_problem(causes, flow)

    assert (report.condition, retryable(report)) == (code, again)
    assert "hunter2" not in report.error.render()


@pytest.mark.parametrize(
    ("cause", "expected"),
    [
        (Cause(None, None, "", "X", "org.apache.kafka.common.errors.TimeoutException"), True),
        (Cause("KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE", None, "[KAFKA_DATA_LOSS...] x", "X"), True),
        (Cause(None, None, 'a rule broke on {"topic": "kafka"}', "SparkRuntimeException", "org.apache.spark.X"), False),
    ],
)
def test_only_failures_that_involve_kafka_are_recognized_as_kafka_failures(cause, expected):
    assert is_of_kafka([Cause(None, None, "failed", "StreamingQueryException"), cause]) is expected


def test_a_timeout_outside_kafka_is_not_a_kafka_problem(flow):
    causes = [Cause(None, None, "", "TimeoutException", "java.util.concurrent.TimeoutException")]

    assert kafka_problem(causes, flow) is None


@pytest.mark.parametrize(
    ("raised", "code", "again"),
    [
        (BadPayload("it is not a record"), "CONFLUENT.PAYLOAD", False),
        (RegistryUnavailable(OSError()), "CONFLUENT.UNREACHABLE", True),
    ],
)
def test_a_confluent_error_of_a_worker_is_recognized_in_the_spark_exception(flow, raised, code, again):
    text = "\n".join(("An exception was thrown from the Python worker:", *traceback.format_exception(raised)))

    report = failure_report(flow, PySparkException(text), Path("/project"))

    assert (report.error.code, retryable(report)) == (code, again)
    assert report.error.params["reason"] == raised.reason


def test_a_zero_byte_commit_is_named_and_not_retried(flow):
    said = 'the Delta commit "/t/_delta_log/00000000000000000002.json" has 0 bytes, so that what it wrote is unknown.'

    report = failure_report(flow, PySparkException(said), Path("/project"))

    assert report.error.code == "STORAGE.EMPTY_COMMIT"
    assert report.error.params == {"file": "/t/_delta_log/00000000000000000002.json"}
    assert not retryable(report)


@pytest.mark.parametrize(
    ("message", "code", "again"),
    [
        ("Timed out while waiting for the Python worker to connect back after 10000 ms", "FLOW.WORKER_LATE", True),
        (
            "requirement failed: Cannot work with a non-pinned table snapshot of the TahoeFileIndex",
            "FLOW.NO_SKIPPING",
            False,
        ),
    ],
)
def test_errors_without_a_condition_are_recognized_by_their_message(flow, message, code, again):
    report = failure_report(flow, PySparkException(message), Path("/project"))

    assert (report.error.code, retryable(report)) == (code, again)
