"""How buckets are reached: endpoint, region and credentials, in the words of each library.

One process reaches a bucket in one way. Paths travel as text, through delta-rs and Spark too, so what a project says of
its buckets is kept here by bucket, once it is opened. A bucket that no project names is reached as the environment
says, with the variables and the workload identity that all libraries of AWS take.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from obstore.store import S3Store

from headrace.stores.object_store import ObjectStore
from headrace.stores.uris import StoreUri, is_store_uri

# What the client libraries are asked for if nobody says a region: it is in each signature.
_DEFAULT_REGION = "us-east-1"
# The client tries for three minutes otherwise, while a user waits for the answer of a verb.
_RETRY_TIMEOUT = timedelta(seconds=30)
_CONNECT_TIMEOUT = timedelta(seconds=10)


@dataclass(frozen=True)
class StoreConnection:
    """How a bucket is reached.

    Attributes:
        endpoint: the URL of a service other than AWS's; empty for AWS.
        region: the region; empty for what the environment says.
        access_key: with ``secret_key``, the credentials; empty for those of the environment.
        secret_key: see ``access_key``.
        session_token: of credentials that expire; empty for none.
    """

    endpoint: str = ""
    region: str = ""
    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)

    @classmethod
    def of_environment(cls, environ: Mapping[str, str]) -> StoreConnection:
        """What the environment says, apart from credentials, which each library finds itself."""
        endpoint = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL", "")
        return cls(endpoint, environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION", ""))

    def object_store_options(self) -> dict[str, str]:
        """For the Rust crate of that name, in obstore and in delta-rs."""
        options = {"aws_region": self.region or _DEFAULT_REGION}
        if self.endpoint:
            options |= {"aws_endpoint": self.endpoint, "aws_virtual_hosted_style_request": "false"}
        if self.endpoint.startswith("http:"):
            options["allow_http"] = "true"
        if self.access_key:
            options |= {"aws_access_key_id": self.access_key, "aws_secret_access_key": self.secret_key}
        if self.session_token:
            options["aws_session_token"] = self.session_token
        return options

    def hadoop_settings(self, bucket: str) -> dict[str, str]:
        """For Hadoop's S3A file system; they hold secrets."""
        settings = {"endpoint.region": self.region or _DEFAULT_REGION}
        if self.endpoint:
            settings |= {"endpoint": self.endpoint, "path.style.access": "true"}
            settings["connection.ssl.enabled"] = "false" if self.endpoint.startswith("http:") else "true"
        if self.access_key:
            settings |= {"access.key": self.access_key, "secret.key": self.secret_key}
        if self.session_token:
            settings["session.token"] = self.session_token
        return {f"fs.s3a.bucket.{bucket}.{key}": value for key, value in settings.items()}


class _Registry:
    """The connections of this process, and the stores that are open."""

    def __init__(self) -> None:
        self._given: dict[str, Callable[[], StoreConnection]] = {}
        self._connections: dict[str, StoreConnection] = {}
        self._stores: dict[str, ObjectStore] = {}
        self._changing = threading.Lock()

    def add(self, root: str, connection: Callable[[], StoreConnection]) -> None:
        with self._changing:
            self._given[root] = connection
            self._connections.pop(root, None)
            self._stores.pop(root, None)

    def connection(self, root: str) -> StoreConnection:
        if root not in self._connections:
            given = self._given.get(root)
            if given is None:
                return StoreConnection.of_environment(os.environ)
            self._connections[root] = given()
        return self._connections[root]

    def has(self, root: str) -> bool:
        return root in self._given

    def all(self) -> dict[str, StoreConnection]:
        return {root: self.connection(root) for root in tuple(self._given)}

    def store(self, uri: StoreUri) -> ObjectStore:
        with self._changing:
            if uri.root not in self._stores:
                self._stores[uri.root] = _open(uri, self.connection(uri.root))
            return self._stores[uri.root]


_REGISTRY = _Registry()


def add_connection(root: str, connection: Callable[[], StoreConnection]) -> None:
    """Say how a bucket is reached from now on.

    Args:
        root: the bucket's canonical URI.
        connection: returns how it is reached; called when the bucket is first used.
    """
    _REGISTRY.add(root, connection)


def is_named(uri: StoreUri) -> bool:
    """Whether settings name a bucket: as the place of a storage, or among their stores."""
    return _REGISTRY.has(uri.root)


def connection_of(uri: StoreUri) -> StoreConnection:
    """How a bucket is reached."""
    return _REGISTRY.connection(uri.root)


def connections(environ: Mapping[str, str]) -> dict[str, str]:
    """Hadoop's settings for all buckets; they hold secrets."""
    settings = {
        key.replace("fs.s3a.bucket.*.", "fs.s3a."): value
        for key, value in StoreConnection.of_environment(environ).hadoop_settings("*").items()
    }
    for root, connection in _REGISTRY.all().items():
        settings |= connection.hadoop_settings(StoreUri.parse(root).bucket)
    return settings


def named_connections() -> dict[str, StoreConnection]:
    """How the buckets are reached that settings name, by canonical URI; they hold secrets."""
    return _REGISTRY.all()


def open_store(uri: StoreUri) -> ObjectStore:
    """The store of a place."""
    return _REGISTRY.store(uri)


def delta_options(path: str) -> dict[str, str] | None:
    """What delta-rs needs to open the table at a path; None on a local disk."""
    return connection_of(StoreUri.parse(path)).object_store_options() if is_store_uri(path) else None


def _open(uri: StoreUri, connection: StoreConnection) -> ObjectStore:
    options = connection.object_store_options()
    allows_http = options.pop("allow_http", "") == "true"
    client = S3Store(
        uri.bucket,
        config=options,  # type: ignore[arg-type]
        client_options={"allow_http": allows_http, "connect_timeout": _CONNECT_TIMEOUT},
        retry_config={"retry_timeout": _RETRY_TIMEOUT},
    )
    return ObjectStore(uri.root, client)
