"""What another process of the same pipeline needs to reach its buckets: Spark's workers, which read no settings."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import partial

from headrace.stores.connection import StoreConnection
from headrace.stores.connections import add_connection, named_connections
from headrace.stores.local_caches import cache_folders, set_cache_folder


def stores_as_text() -> str:
    """The connections of this process and its cache folders, with secrets; empty if no settings name a bucket."""
    connections = {root: asdict(connection) for root, connection in named_connections().items()}
    return json.dumps({"connections": connections, "caches": cache_folders()}) if connections else ""


def take_stores(text: str) -> None:
    """Let this process reach the buckets as the one that made the text."""
    if not text:
        return
    document = json.loads(text)
    for root, given in document["connections"].items():
        add_connection(root, partial(StoreConnection, **given))
    for storage, folder in document["caches"].items():
        set_cache_folder(storage, folder)
