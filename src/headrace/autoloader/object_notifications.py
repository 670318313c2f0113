"""What tells of new objects in a bucket, so that it need not be listed: a queue of S3's notifications."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import unquote_plus

from headrace.errors import PipelineError

# As many as the service gives, and takes back, at a time.
_AT_ONCE = 10


@dataclass(frozen=True)
class Notice:
    """A message: whole paths of the objects that it tells of, and by what the queue knows it."""

    paths: tuple[str, ...]
    receipt: str


class ObjectQueue(Protocol):
    """A queue that tells each new object at least once."""

    def received(self) -> Sequence[Notice] | None:
        """Some messages that can be read, which nobody else gets for a while; None when there are no more now."""
        ...

    def done(self, notices: Sequence[Notice]) -> None:
        """Take messages from the queue for good."""
        ...

    @property
    def name(self) -> str:
        """What tells it from others."""
        ...

    def waiting(self) -> int:
        """How many messages seem to be waiting; none is received."""
        ...


class SqsQueue:
    """A queue of Amazon SQS that a bucket, a topic of SNS, or EventBridge sends notifications to.

    Credentials, and an address that is not Amazon's, come from the environment (``AWS_*``).
    """

    def __init__(self, url: str, region: str | None) -> None:
        """Open it.

        Raises:
            PipelineError: ``AUTO_LOADER.PACKAGE``: boto3 is not installed.
        """
        try:
            import boto3  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise PipelineError("AUTO_LOADER.PACKAGE", what="SQS queues", package="boto3") from error
        self._url = url
        self._client: Any = boto3.client("sqs", region_name=region or _region_of(url))

    def received(self) -> Sequence[Notice] | None:
        """Some messages; those that nobody can read stay, for the queue's own rule about such."""
        # Waiting asks all of the service's machines, where an answer at once may come from one that has none.
        answer = self._call("receive_message", MaxNumberOfMessages=_AT_ONCE, WaitTimeSeconds=1)
        messages = [(paths_told(message["Body"]), message["ReceiptHandle"]) for message in answer.get("Messages", ())]
        return [Notice(paths, receipt) for paths, receipt in messages if paths is not None] if messages else None

    def done(self, notices: Sequence[Notice]) -> None:
        """Take messages from the queue for good."""
        if not notices:
            return
        entries = [{"Id": str(place), "ReceiptHandle": notice.receipt} for place, notice in enumerate(notices)]
        self._call("delete_message_batch", Entries=entries)

    @property
    def name(self) -> str:
        """Its address."""
        return self._url

    def waiting(self) -> int:
        """How many messages seem to be waiting; the service does not count exactly."""
        name = "ApproximateNumberOfMessages"
        return int(self._call("get_queue_attributes", AttributeNames=[name])["Attributes"][name])

    def _call(self, operation: str, **arguments: Any) -> Any:
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - an extra

        try:
            return getattr(self._client, operation)(QueueUrl=self._url, **arguments)
        except (BotoCoreError, ClientError) as error:
            raise PipelineError("AUTO_LOADER.QUEUE_FAILS", queue=self._url, reason=str(error)) from error


def paths_told(body: str) -> tuple[str, ...] | None:
    """Whole paths of the objects that a message says were made; None when it is no notification that can be followed.

    Keys with nothing between two slashes are none that can be read here.

    It may come from the bucket (``Records``, keys encoded as in a query), in a letter of SNS around that, or from
    EventBridge (``detail``, keys as they are).
    """
    try:
        message = json.loads(body)
    except ValueError:
        return None
    if not isinstance(message, dict):
        return None
    if isinstance(message.get("Message"), str):
        return paths_told(message["Message"])
    if message.get("Event") == "s3:TestEvent":
        return ()
    try:
        paths = tuple(_of_event_bridge(message) if "detail" in message else _of_records(message["Records"]))
    except (KeyError, TypeError):
        return None
    return None if any("//" in path.removeprefix("s3://") for path in paths) else paths


def _of_records(records: Iterable[Any]) -> Iterator[str]:
    for record in records:
        if str(record["eventName"]).removeprefix("s3:").startswith("ObjectCreated"):
            yield f"s3://{record['s3']['bucket']['name']}/{unquote_plus(record['s3']['object']['key'])}"


def _of_event_bridge(message: Any) -> Iterator[str]:
    if message["detail-type"] == "Object Created":
        yield f"s3://{message['detail']['bucket']['name']}/{message['detail']['object']['key']}"


def _region_of(url: str) -> str | None:
    """The region in a queue's address, such as ``https://sqs.eu-west-1.amazonaws.com/1/name``; None in others."""
    host = url.partition("//")[2].partition("/")[0].split(".")
    return host[1] if len(host) > 3 and host[0] == "sqs" else None
