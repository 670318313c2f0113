"""The file systems of buckets whose settings say how they are reached."""

from __future__ import annotations

from urllib.parse import urlsplit

from pyarrow import fs

from headrace.stores.connection import StoreConnection
from headrace.stores.connections import connection_of, is_named
from headrace.stores.uris import AZURE, GOOGLE, S3, AzureContainer, StoreUri, is_store_uri


def named_file_system(root: str) -> tuple[fs.FileSystem, str] | None:
    """The file system of a bucket, and its path there; None if the environment says all about it.

    Raises:
        ValueError: the URI names no container of Azure.
        OSError, pyarrow.ArrowException: the file system cannot be opened.
    """
    uri = StoreUri.parse(root) if is_store_uri(root) else None
    if uri is None:
        return None
    connection = connection_of(uri) if is_named(uri) else StoreConnection()
    if uri.scheme == AZURE:
        container = AzureContainer.of(uri.bucket)
        return _azure(container, connection), container.name
    if connection == StoreConnection(region=connection.region):
        return None
    if uri.scheme == GOOGLE:
        return _google(connection), uri.bucket
    return (_s3(uri.bucket, connection), uri.bucket) if uri.scheme == S3 else None


def _s3(bucket: str, connection: StoreConnection) -> fs.FileSystem:
    return fs.S3FileSystem(
        access_key=connection.access_key or None,
        secret_key=connection.secret_key or None,
        session_token=connection.session_token or None,
        region=connection.region or (None if connection.endpoint else fs.resolve_s3_region(bucket)),
        endpoint_override=connection.endpoint or None,
    )


def _azure(container: AzureContainer, connection: StoreConnection) -> fs.FileSystem:
    """Without credentials, those that Azure's own library finds: variables, a workload's or a machine's identity."""
    scheme, authority = urlsplit(connection.endpoint)[:2] if connection.endpoint else ("https", "")
    return fs.AzureFileSystem(
        container.account,
        account_key=connection.account_key or None,
        sas_token=connection.sas_token or None,
        blob_storage_authority=authority or f".{container.domain.replace('dfs.', 'blob.', 1)}",
        dfs_storage_authority=authority or f".{container.domain}",
        blob_storage_scheme=scheme,
        dfs_storage_scheme=scheme,
    )


def _google(connection: StoreConnection) -> fs.FileSystem:
    scheme, authority = urlsplit(connection.endpoint)[:2] if connection.endpoint else (None, None)
    return fs.GcsFileSystem(anonymous=connection.anonymous, scheme=scheme, endpoint_override=authority)
