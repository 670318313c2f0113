"""How buckets are reached: endpoint, region and credentials.

HDFS is reached as Hadoop's own programs reach it: by the configuration and the user that the environment names.

One process reaches a bucket in one way. Paths travel as text, through delta-rs and Spark too, so what a project says of
its buckets is kept here by bucket, once it is opened. A bucket that no project names is reached as the environment
says, with the variables and the workload identity that the cloud's own libraries take.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping

from headrace.stores.client_options import hadoop_settings, object_store_options, s3a_settings
from headrace.stores.cloud_clients import open_cloud_store
from headrace.stores.connection import StoreConnection
from headrace.stores.hdfs_files import HdfsFiles
from headrace.stores.hdfs_store import HdfsStore
from headrace.stores.object_store import ObjectStore
from headrace.stores.uris import HDFS, S3, StoreUri, is_store_uri


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

    def connection(self, uri: StoreUri) -> StoreConnection:
        if uri.root not in self._connections:
            given = self._given.get(uri.root)
            if given is None:
                return StoreConnection.of_environment(os.environ) if uri.scheme == S3 else StoreConnection()
            self._connections[uri.root] = given()
        return self._connections[uri.root]

    def has(self, root: str) -> bool:
        return root in self._given

    def all(self) -> dict[str, StoreConnection]:
        return {root: self.connection(StoreUri.parse(root)) for root in tuple(self._given)}

    def store(self, uri: StoreUri) -> ObjectStore:
        with self._changing:
            if uri.root not in self._stores:
                self._stores[uri.root] = _open(uri, self.connection(uri))
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
    return _REGISTRY.connection(uri)


def connections(environ: Mapping[str, str]) -> dict[str, str]:
    """Hadoop's settings for all buckets; they hold secrets."""
    of_environment = s3a_settings("*", StoreConnection.of_environment(environ))
    settings = {key.replace("fs.s3a.bucket.*.", "fs.s3a."): value for key, value in of_environment.items()}
    for root, connection in _REGISTRY.all().items():
        settings |= hadoop_settings(StoreUri.parse(root), connection)
    return settings


def named_connections() -> dict[str, StoreConnection]:
    """How the buckets are reached that settings name, by canonical URI; they hold secrets."""
    return _REGISTRY.all()


def open_store(uri: StoreUri) -> ObjectStore:
    """The store of a place."""
    return _REGISTRY.store(uri)


def delta_options(path: str) -> dict[str, str] | None:
    """What delta-rs needs to open the table at a path; None on a local disk."""
    if not is_store_uri(path):
        return None
    uri = StoreUri.parse(path)
    return object_store_options(uri, connection_of(uri))


def _open(uri: StoreUri, connection: StoreConnection) -> ObjectStore:
    return HdfsStore(HdfsFiles.at(uri.root)) if uri.scheme == HDFS else open_cloud_store(uri, connection)
