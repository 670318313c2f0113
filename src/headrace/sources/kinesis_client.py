"""Requests to Kinesis through boto3, an extra: lists shards, and reads records after a position."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from headrace.errors import PipelineError

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

_FORMAT_NAME = "kinesis"
# Its name matches spark.redaction.regex, as those of keys and tokens do, so Spark redacts it where it shows options.
EXTERNAL_ID_SECRET = "headrace.secretRoleExternalId"  # noqa: S105 - the name of an option
_TIMEOUT_S = 60
_MAX_ATTEMPTS = 8
# Transient errors, from the API references of GetRecords, GetShardIterator and ListShards, and the errors common to all
# services.
_THROTTLED = frozenset(
    {
        *("KMSThrottlingException", "LimitExceededException", "ProvisionedThroughputExceededException"),
        *("RequestLimitExceeded", "Throttling", "ThrottlingException", "TooManyRequestsException"),
        *("InternalFailure", "InternalFailureException", "ServiceUnavailable", "ServiceUnavailableException"),
    }
)


@dataclass(frozen=True)
class Access:
    """The service's address and the credentials; ``secrets`` are by the names of their options."""

    region: str | None = None
    url: str | None = None
    role: str | None = None
    role_session: str = "headrace"
    role_url: str | None = None
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)

    def client(self) -> KinesisClient:
        """A client that retries its requests if the service is busy.

        Raises:
            PipelineError: ``SOURCE.PACKAGE_MISSING``, ``KINESIS.REFUSED``.
        """
        if find_spec("boto3") is None:
            raise PipelineError("SOURCE.PACKAGE_MISSING", format=_FORMAT_NAME, package="boto3", install="headrace[aws]")
        import boto3  # noqa: PLC0415 - an extra
        from botocore.config import Config  # noqa: PLC0415 - an extra

        config = Config(
            connect_timeout=_TIMEOUT_S // 6,
            read_timeout=_TIMEOUT_S,
            retries={"mode": "standard", "max_attempts": _MAX_ATTEMPTS},
        )
        with translate_errors("the service"):
            keys: dict[str, Any] = self._keys()
            session = boto3.session.Session(**keys, region_name=self.region)
            if self.role is not None:
                session = self._assumed(session, config)
            return session.client("kinesis", endpoint_url=self.url, config=config)

    def _keys(self) -> dict[str, str]:
        names = {
            "awsaccesskey": "aws_access_key_id",
            "awssecretkey": "aws_secret_access_key",
            "awssessiontoken": "aws_session_token",
        }
        folded = {name.casefold(): value for name, value in self.secrets.items()}
        return {name: folded[option] for option, name in names.items() if option in folded}

    def _assumed(self, session: Any, config: Any) -> Any:
        """A session of the role, which renews its credentials before they expire."""
        import boto3  # noqa: PLC0415 - an extra
        from botocore.credentials import RefreshableCredentials  # noqa: PLC0415 - an extra
        from botocore.session import get_session  # noqa: PLC0415 - an extra

        sts = session.client("sts", endpoint_url=self.role_url, config=config)
        external_id = next(
            (v for name, v in self.secrets.items() if name.casefold() == EXTERNAL_ID_SECRET.casefold()), None
        )

        def fetch_credentials() -> dict[str, Any]:
            extra = {} if external_id is None else {"ExternalId": external_id}
            credentials = sts.assume_role(RoleArn=self.role, RoleSessionName=self.role_session, **extra)["Credentials"]
            return {
                "access_key": credentials["AccessKeyId"],
                "secret_key": credentials["SecretAccessKey"],
                "token": credentials["SessionToken"],
                "expiry_time": credentials["Expiration"].isoformat(),
            }

        botocore_session = get_session()
        botocore_session._credentials = RefreshableCredentials.create_from_metadata(  # type: ignore[attr-defined] # noqa: SLF001 - botocore has no public door for credentials that are renewed
            metadata=fetch_credentials(), refresh_using=fetch_credentials, method="sts-assume-role"
        )
        return boto3.session.Session(botocore_session=botocore_session, region_name=self.region or session.region_name)


class IteratorExpired(Exception):
    """An iterator was not used for five minutes; request a new one for the same position."""


@contextmanager
def translate_errors(stream: str) -> Iterator[None]:
    """Translate boto3's errors into problems with hints; their texts contain no keys.

    Raises:
        PipelineError: ``KINESIS.UNREACHABLE``, ``KINESIS.BUSY``, ``KINESIS.REFUSED``.
        IteratorExpired: the iterator of a request is too old.
    """
    from botocore import exceptions  # noqa: PLC0415 - an extra

    try:
        yield
    except exceptions.ClientError as error:
        details = error.response.get("Error", {})
        if details.get("Code") == "ExpiredIteratorException":
            raise IteratorExpired from None
        reason = f"{details.get('Code', 'Error')}: {details.get('Message', '')}".rstrip(". :")
        code = "KINESIS.BUSY" if details.get("Code") in _THROTTLED else "KINESIS.REFUSED"
        raise PipelineError(code, stream=stream, reason=reason) from None
    except (exceptions.ConnectionError, exceptions.HTTPClientError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise PipelineError("KINESIS.UNREACHABLE", stream=stream, reason=reason) from None
    except exceptions.BotoCoreError as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise PipelineError("KINESIS.REFUSED", stream=stream, reason=reason) from None


@dataclass(frozen=True)
class Shard:
    """A shard and its parents, which are read before it."""

    id: str
    parents: tuple[str, ...]


@dataclass(frozen=True)
class Record:
    """One record, as the service returns it."""

    sequence: str
    key: str
    data: bytes
    arrived_at: datetime


@dataclass(frozen=True)
class FetchResult:
    """The answer to one request.

    Attributes:
        records: in order.
        next_iterator: for the next request; None after the last record of a closed shard.
        behind_ms: how far the answer is behind the newest record; 0 if there is nothing more.
    """

    records: tuple[Record, ...]
    next_iterator: str | None
    behind_ms: int


def list_shards(client: KinesisClient, stream: str) -> list[Shard]:
    """The shards of a stream, including closed shards that still have records."""
    found: list[Shard] = []
    arguments: dict[str, Any] = {"StreamName": stream}
    with translate_errors(stream):
        while True:
            answer = client.list_shards(**arguments)
            for shard in answer["Shards"]:
                parents = (shard.get("ParentShardId"), shard.get("AdjacentParentShardId"))
                found.append(Shard(shard["ShardId"], tuple(parent for parent in parents if parent)))
            token = answer.get("NextToken")
            if not token:
                return found
            arguments = {"NextToken": token}


def get_iterator(client: KinesisClient, stream: str, shard: str, kind: str, value: str = "") -> str | None:
    """An iterator of a shard: ``TRIM_HORIZON``, ``AT_TIMESTAMP`` with milliseconds, or ``AFTER_SEQUENCE_NUMBER``.

    None if the shard no longer exists.
    """
    from botocore.exceptions import ClientError  # noqa: PLC0415 - an extra

    extra: dict[str, Any] = {}
    if kind == "AT_TIMESTAMP":
        extra["Timestamp"] = datetime.fromtimestamp(int(value) / 1000, UTC)
    elif kind == "AFTER_SEQUENCE_NUMBER":
        extra["StartingSequenceNumber"] = value
    with translate_errors(stream):
        try:
            answer = client.get_shard_iterator(
                StreamName=stream,
                ShardId=shard,
                ShardIteratorType=kind,  # type: ignore[arg-type]  # one of three words
                **extra,
            )
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") == "ResourceNotFoundException" and _stream_exists(
                client, stream
            ):
                return None
            raise
    return answer["ShardIterator"]


def fetch(client: KinesisClient, stream: str, iterator: str, limit: int) -> FetchResult:
    """The records after an iterator, at most *limit*."""
    with translate_errors(stream):
        answer = client.get_records(ShardIterator=iterator, Limit=limit)
    records = tuple(
        Record(
            sequence=record["SequenceNumber"],
            key=record["PartitionKey"],
            data=bytes(record["Data"]),
            arrived_at=record["ApproximateArrivalTimestamp"].astimezone(UTC),
        )
        for record in answer["Records"]
    )
    return FetchResult(records, answer.get("NextShardIterator") or None, answer.get("MillisBehindLatest", 0))


def _stream_exists(client: KinesisClient, stream: str) -> bool:
    return bool(client.list_shards(StreamName=stream, MaxResults=1)["Shards"])
