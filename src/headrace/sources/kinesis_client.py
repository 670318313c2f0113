"""Requests to Kinesis through boto3, an extra: shards, and records behind a position."""

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
# Its name matches spark.redaction.regex, as those of keys and tokens do, so that Spark hides it where it shows options.
EXTERNAL_ID_SECRET = "headrace.secretRoleExternalId"  # noqa: S105 - the name of an option
_SECONDS = 60
_TRIES = 8
# What passes by itself, of the errors in the API reference of GetRecords, GetShardIterator and ListShards, and of those
# that all services have.
_BUSY = frozenset(
    {
        *("KMSThrottlingException", "LimitExceededException", "ProvisionedThroughputExceededException"),
        *("RequestLimitExceeded", "Throttling", "ThrottlingException", "TooManyRequestsException"),
        *("InternalFailure", "InternalFailureException", "ServiceUnavailable", "ServiceUnavailableException"),
    }
)


@dataclass(frozen=True)
class Access:
    """Where the service is, and as whom it is asked; ``secrets`` are by the names of their options."""

    region: str | None = None
    url: str | None = None
    role: str | None = None
    role_session: str = "headrace"
    role_url: str | None = None
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)

    def client(self) -> KinesisClient:
        """A client, whose requests are tried again when the service is busy.

        Raises:
            PipelineError: ``SOURCE.PACKAGE_MISSING``, ``KINESIS.REFUSED``.
        """
        if find_spec("boto3") is None:
            raise PipelineError("SOURCE.PACKAGE_MISSING", format=_FORMAT_NAME, package="boto3", install="headrace[aws]")
        import boto3  # noqa: PLC0415 - an extra
        from botocore.config import Config  # noqa: PLC0415 - an extra

        patience = Config(
            connect_timeout=_SECONDS // 6, read_timeout=_SECONDS, retries={"mode": "standard", "max_attempts": _TRIES}
        )
        with told_in_words("the service"):
            keys: dict[str, Any] = self._keys()
            session = boto3.session.Session(**keys, region_name=self.region)
            if self.role is not None:
                session = self._assumed(session, patience)
            return session.client("kinesis", endpoint_url=self.url, config=patience)

    def _keys(self) -> dict[str, str]:
        names = {
            "awsaccesskey": "aws_access_key_id",
            "awssecretkey": "aws_secret_access_key",
            "awssessiontoken": "aws_session_token",
        }
        folded = {name.casefold(): value for name, value in self.secrets.items()}
        return {name: folded[option] for option, name in names.items() if option in folded}

    def _assumed(self, session: Any, patience: Any) -> Any:
        """A session of the role, whose credentials are renewed before they end."""
        import boto3  # noqa: PLC0415 - an extra
        from botocore.credentials import RefreshableCredentials  # noqa: PLC0415 - an extra
        from botocore.session import get_session  # noqa: PLC0415 - an extra

        sts = session.client("sts", endpoint_url=self.role_url, config=patience)
        outside = next(
            (v for name, v in self.secrets.items() if name.casefold() == EXTERNAL_ID_SECRET.casefold()), None
        )

        def fresh() -> dict[str, Any]:
            more = {} if outside is None else {"ExternalId": outside}
            given = sts.assume_role(RoleArn=self.role, RoleSessionName=self.role_session, **more)["Credentials"]
            return {
                "access_key": given["AccessKeyId"],
                "secret_key": given["SecretAccessKey"],
                "token": given["SessionToken"],
                "expiry_time": given["Expiration"].isoformat(),
            }

        inner = get_session()
        inner._credentials = RefreshableCredentials.create_from_metadata(  # type: ignore[attr-defined] # noqa: SLF001 - botocore has no public door for credentials that are renewed
            metadata=fresh(), refresh_using=fresh, method="sts-assume-role"
        )
        return boto3.session.Session(botocore_session=inner, region_name=self.region or session.region_name)


class IteratorExpired(Exception):
    """An iterator was not used for five minutes; another one of the same place does."""


@contextmanager
def told_in_words(stream: str) -> Iterator[None]:
    """Let what boto3 raises be a problem with a hint; its texts have no keys in them.

    Raises:
        PipelineError: ``KINESIS.UNREACHABLE``, ``KINESIS.BUSY``, ``KINESIS.REFUSED``.
        IteratorExpired: a request was made with one that is too old.
    """
    from botocore import exceptions  # noqa: PLC0415 - an extra

    try:
        yield
    except exceptions.ClientError as error:
        said = error.response.get("Error", {})
        if said.get("Code") == "ExpiredIteratorException":
            raise IteratorExpired from None
        reason = f"{said.get('Code', 'Error')}: {said.get('Message', '')}".rstrip(". :")
        code = "KINESIS.BUSY" if said.get("Code") in _BUSY else "KINESIS.REFUSED"
        raise PipelineError(code, stream=stream, reason=reason) from None
    except (exceptions.ConnectionError, exceptions.HTTPClientError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise PipelineError("KINESIS.UNREACHABLE", stream=stream, reason=reason) from None
    except exceptions.BotoCoreError as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise PipelineError("KINESIS.REFUSED", stream=stream, reason=reason) from None


@dataclass(frozen=True)
class Shard:
    """A shard with those that it was made of, which are read before it."""

    id: str
    parents: tuple[str, ...]


@dataclass(frozen=True)
class Record:
    """One record, as the service gives it."""

    sequence: str
    key: str
    data: bytes
    arrived_at: datetime


@dataclass(frozen=True)
class Fetched:
    """The answer to one request.

    Attributes:
        records: in their order.
        following: the iterator for the next request; None behind the last record of a shard that is closed.
        behind_ms: how far the answer is behind the newest record; 0 when there was nothing more.
    """

    records: tuple[Record, ...]
    following: str | None
    behind_ms: int


def shards_of(client: KinesisClient, stream: str) -> list[Shard]:
    """The shards of a stream, those that are closed and still have records too."""
    found: list[Shard] = []
    arguments: dict[str, Any] = {"StreamName": stream}
    with told_in_words(stream):
        while True:
            answer = client.list_shards(**arguments)
            for shard in answer["Shards"]:
                parents = (shard.get("ParentShardId"), shard.get("AdjacentParentShardId"))
                found.append(Shard(shard["ShardId"], tuple(parent for parent in parents if parent)))
            token = answer.get("NextToken")
            if not token:
                return found
            arguments = {"NextToken": token}


def iterator_at(client: KinesisClient, stream: str, shard: str, kind: str, value: str = "") -> str | None:
    """An iterator of a shard: ``TRIM_HORIZON``, ``AT_TIMESTAMP`` with milliseconds, or ``AFTER_SEQUENCE_NUMBER``.

    None when the shard is no longer there.
    """
    from botocore.exceptions import ClientError  # noqa: PLC0415 - an extra

    more: dict[str, Any] = {}
    if kind == "AT_TIMESTAMP":
        more["Timestamp"] = datetime.fromtimestamp(int(value) / 1000, UTC)
    elif kind == "AFTER_SEQUENCE_NUMBER":
        more["StartingSequenceNumber"] = value
    with told_in_words(stream):
        try:
            answer = client.get_shard_iterator(
                StreamName=stream,
                ShardId=shard,
                ShardIteratorType=kind,  # type: ignore[arg-type]  # one of three words
                **more,
            )
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") == "ResourceNotFoundException" and _there(client, stream):
                return None
            raise
    return answer["ShardIterator"]


def fetch(client: KinesisClient, stream: str, iterator: str, most: int) -> Fetched:
    """The records behind an iterator, as many as one request gives."""
    with told_in_words(stream):
        answer = client.get_records(ShardIterator=iterator, Limit=most)
    records = tuple(
        Record(
            sequence=record["SequenceNumber"],
            key=record["PartitionKey"],
            data=bytes(record["Data"]),
            arrived_at=record["ApproximateArrivalTimestamp"].astimezone(UTC),
        )
        for record in answer["Records"]
    )
    return Fetched(records, answer.get("NextShardIterator") or None, answer.get("MillisBehindLatest", 0))


def _there(client: KinesisClient, stream: str) -> bool:
    return bool(client.list_shards(StreamName=stream, MaxResults=1)["Shards"])
