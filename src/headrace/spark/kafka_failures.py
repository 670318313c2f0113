"""What Kafka's client raises, as our errors: told apart by class, because its exceptions carry no condition."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.errors import PipelineError
from headrace.model.datasets import Flow
from headrace.runtime.ports import Failed
from headrace.spark.causes import Cause

_PACKAGE = "org.apache.kafka.common."
# By class, the first that fits any cause; the last column says whether it may pass by itself.
_CODES = (
    ("errors.SaslAuthenticationException", "KAFKA.CREDENTIALS", False),
    ("errors.SslAuthenticationException", "KAFKA.CERTIFICATE", False),
    ("errors.TopicAuthorizationException", "KAFKA.NOT_ALLOWED", False),
    ("errors.GroupAuthorizationException", "KAFKA.NOT_ALLOWED", False),
    ("errors.ClusterAuthorizationException", "KAFKA.NOT_ALLOWED", False),
    ("config.ConfigException", "KAFKA.CONFIGURATION", False),
    ("errors.UnknownTopicOrPartitionException", "KAFKA.TOPIC_GONE", True),
    ("errors.TimeoutException", "KAFKA.UNREACHABLE", True),
    ("errors.DisconnectException", "KAFKA.UNREACHABLE", True),
)
_WORDS = ("org.apache.kafka.", "org.apache.spark.sql.kafka010.", "[KAFKA_")
_LOGIN = "javax.security.auth.login.LoginException"


def is_of_kafka(causes: Sequence[Cause]) -> bool:
    """Whether Kafka's client, or Spark's source that uses it, has a part in a failure."""
    return any(word in f"{cause.java_class} {cause.message}" for cause in causes for word in _WORDS)


def kafka_problem(causes: Sequence[Cause], flow: Flow | None) -> Failed | None:
    """The report behind what Kafka's client has raised; None when none of the causes is its.

    Its own texts are left out: they may repeat an option.
    """
    classes = {cause.java_class for cause in causes}
    found = next(((code, passes) for name, code, passes in _CODES if _PACKAGE + name in classes), None)
    if _LOGIN in classes:
        found = ("KAFKA.CREDENTIALS", False)
    if found is None and "javax.net.ssl.SSLHandshakeException" in classes:
        found = ("KAFKA.CERTIFICATE", False)
    if found is None and any(name.startswith(_PACKAGE) and name.endswith(".KafkaException") for name in classes):
        # Its constructor fails so: a file that is not there, a class that is not known.
        found = ("KAFKA.CONFIGURATION", False)
    if found is None:
        return None
    code, passes = found
    name = flow.name if flow is not None else ""
    problem = PipelineError(code, location=flow.location if flow is not None else None, flow=name)
    return Failed(name, problem, condition=code, transient=passes)
