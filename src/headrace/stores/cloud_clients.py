"""Opens the clients of buckets."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from obstore.store import AzureStore, GCSStore, S3Store

from headrace.stores.client_options import object_store_options
from headrace.stores.cloud_store import CloudStore
from headrace.stores.connection import StoreConnection
from headrace.stores.uris import AzureContainer, StoreUri

# The client tries for three minutes otherwise, while a user waits for the answer of a verb.
_RETRY_TIMEOUT = timedelta(seconds=30)
_CONNECT_TIMEOUT = timedelta(seconds=10)


def open_cloud_store(uri: StoreUri, connection: StoreConnection) -> CloudStore:
    """The bucket of a place."""
    config: Any = object_store_options(uri, connection)
    allows_http = config.pop("allow_http", "") == "true"
    how: Any = {
        "config": config,
        "client_options": {"allow_http": allows_http, "connect_timeout": _CONNECT_TIMEOUT},
        "retry_config": {"retry_timeout": _RETRY_TIMEOUT},
    }
    match uri.scheme:
        case "abfss":
            client: Any = AzureStore(AzureContainer.of(uri.bucket).name, **how)
        case "gs":
            client = GCSStore(uri.bucket, **how)
        case _:
            client = S3Store(uri.bucket, **how)
    return CloudStore(uri.root, client)
