"""Queues of S3 event notifications, which report new objects so that the bucket need not be listed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import unquote_plus

from headrace.errors import PipelineError

# The service's maximum of messages per receive and per delete.
_MAX_MESSAGES = 10


@dataclass(frozen=True)
class Notification:
    """A message: full paths of the new objects, and the receipt to delete the message with."""

    paths: tuple[str, ...]
    receipt: str


class ObjectQueue(Protocol):
    """A queue that reports each new object at least once."""

    def receive(self) -> Sequence[Notification] | None:
        """Receive some readable messages, which others do not get for a while; None if the queue is empty now."""
        ...

    def delete(self, notifications: Sequence[Notification]) -> None:
        """Delete messages from the queue."""
        ...

    @property
    def name(self) -> str:
        """Its identity."""
        ...

    def count(self) -> int:
        """The approximate number of waiting messages; receives none."""
        ...


class SqsQueue:
    """An Amazon SQS queue that a bucket, an SNS topic or EventBridge sends notifications to.

    Credentials, and the endpoint of another service, come from the environment (``AWS_*``).
    """

    def __init__(self, url: str, region: str | None) -> None:
        """Open the queue.

        Raises:
            PipelineError: ``AUTO_LOADER.PACKAGE``: boto3 is not installed.
        """
        try:
            import boto3  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise PipelineError("AUTO_LOADER.PACKAGE", what="SQS queues", package="boto3") from error
        self._url = url
        self._client: Any = boto3.client("sqs", region_name=region or _region_of(url))

    def receive(self) -> Sequence[Notification] | None:
        """Receive some messages; unreadable ones stay, and the queue's own policy applies to them."""
        # Long polling asks all servers of the service; short polling may ask one that has no messages.
        answer = self._call("receive_message", MaxNumberOfMessages=_MAX_MESSAGES, WaitTimeSeconds=1)
        messages = [(object_paths(message["Body"]), message["ReceiptHandle"]) for message in answer.get("Messages", ())]
        return [Notification(paths, receipt) for paths, receipt in messages if paths is not None] if messages else None

    def delete(self, notifications: Sequence[Notification]) -> None:
        """Delete messages from the queue."""
        if not notifications:
            return
        entries = [
            {"Id": str(number), "ReceiptHandle": notification.receipt}
            for number, notification in enumerate(notifications)
        ]
        self._call("delete_message_batch", Entries=entries)

    @property
    def name(self) -> str:
        """The queue's URL."""
        return self._url

    def count(self) -> int:
        """The approximate number of waiting messages, as the service counts them."""
        name = "ApproximateNumberOfMessages"
        return int(self._call("get_queue_attributes", AttributeNames=[name])["Attributes"][name])

    def _call(self, operation: str, **arguments: Any) -> Any:
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - an extra

        try:
            return getattr(self._client, operation)(QueueUrl=self._url, **arguments)
        except (BotoCoreError, ClientError) as error:
            raise PipelineError("AUTO_LOADER.QUEUE_FAILS", queue=self._url, reason=str(error)) from error


def object_paths(body: str) -> tuple[str, ...] | None:
    """Full paths of the objects that a message reports as created; None if it is not a usable notification.

    Keys with two slashes in a row are not supported.

    A message can come from the bucket (``Records``, keys URL-encoded), from the bucket through SNS, or from EventBridge
    (``detail``, keys not encoded).
    """
    try:
        message = json.loads(body)
    except ValueError:
        return None
    if not isinstance(message, dict):
        return None
    if isinstance(message.get("Message"), str):
        return object_paths(message["Message"])
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
    """The region in a queue's URL, such as ``https://sqs.eu-west-1.amazonaws.com/1/name``; None if it has none."""
    host = url.partition("//")[2].partition("/")[0].split(".")
    return host[1] if len(host) > 3 and host[0] == "sqs" else None
