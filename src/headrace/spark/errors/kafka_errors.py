"""Turns exceptions of Kafka's client into our errors, by class, because they carry no condition."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.errors import PipelineError
from headrace.model.datasets import Flow
from headrace.runtime.ports import Failed
from headrace.spark.jvm.causes import Cause

_PACKAGE = "org.apache.kafka.common."
# By class; the first that matches any cause wins.
_CODES = (
    ("errors.SaslAuthenticationException", "KAFKA.CREDENTIALS"),
    ("errors.SslAuthenticationException", "KAFKA.CERTIFICATE"),
    ("errors.TopicAuthorizationException", "KAFKA.NOT_ALLOWED"),
    ("errors.GroupAuthorizationException", "KAFKA.NOT_ALLOWED"),
    ("errors.ClusterAuthorizationException", "KAFKA.NOT_ALLOWED"),
    ("config.ConfigException", "KAFKA.CONFIGURATION"),
    ("errors.UnknownTopicOrPartitionException", "KAFKA.TOPIC_GONE"),
    ("errors.TimeoutException", "KAFKA.UNREACHABLE"),
    ("errors.DisconnectException", "KAFKA.UNREACHABLE"),
)
_MARKS = ("org.apache.kafka.", "org.apache.spark.sql.kafka010.", "[KAFKA_")
_LOGIN = "javax.security.auth.login.LoginException"


def is_of_kafka(causes: Sequence[Cause]) -> bool:
    """Whether Kafka's client, or Spark's source that uses it, is involved in a failure."""
    return any(mark in f"{cause.java_class} {cause.message}" for cause in causes for mark in _MARKS)


def kafka_problem(causes: Sequence[Cause], flow: Flow | None) -> Failed | None:
    """The report for an exception of Kafka's client; None if no cause is one.

    The report omits the client's own texts, which may contain the value of an option.
    """
    classes = {cause.java_class for cause in causes}
    code = next((code for name, code in _CODES if _PACKAGE + name in classes), None)
    if _LOGIN in classes:
        code = "KAFKA.CREDENTIALS"
    if code is None and "javax.net.ssl.SSLHandshakeException" in classes:
        code = "KAFKA.CERTIFICATE"
    if code is None and any(name.startswith(_PACKAGE) and name.endswith(".KafkaException") for name in classes):
        # The client's constructor fails this way, for example for a missing file or an unknown class.
        code = "KAFKA.CONFIGURATION"
    if code is None:
        return None
    name = flow.name if flow is not None else ""
    problem = PipelineError(code, location=flow.location if flow is not None else None, flow=name)
    return Failed(name, problem, condition=code)
