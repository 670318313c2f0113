"""A connection in the words of each library."""

from __future__ import annotations

from headrace.stores.connection import StoreConnection
from headrace.stores.uris import S3, AzureContainer, StoreUri

# What the client libraries are asked for if nobody says a region: it is in each signature.
_DEFAULT_REGION = "us-east-1"


def object_store_options(uri: StoreUri, connection: StoreConnection) -> dict[str, str]:
    """For the Rust crate ``object_store``, in obstore and in delta-rs; they hold secrets.

    Of HDFS, delta-rs reads the configuration that the environment names.
    """
    match uri.scheme:
        case "abfss":
            return _azure_options(AzureContainer.of(uri.bucket), connection)
        case "gs":
            return _google_options(connection)
        case "hdfs":
            return {}
        case _:
            return _s3_options(connection)


def hadoop_settings(uri: StoreUri, connection: StoreConnection) -> dict[str, str]:
    """For Hadoop's file systems; they hold secrets. For others than S3, ``spark_conf`` has them."""
    return s3a_settings(uri.bucket, connection) if uri.scheme == S3 else {}


def s3a_settings(bucket: str, connection: StoreConnection) -> dict[str, str]:
    """For Hadoop's S3A file system and a bucket; they hold secrets."""
    settings = {"endpoint.region": connection.region or _DEFAULT_REGION}
    if connection.endpoint:
        settings |= {"endpoint": connection.endpoint, "path.style.access": "true"}
        settings["connection.ssl.enabled"] = "false" if connection.endpoint.startswith("http:") else "true"
    if connection.access_key:
        settings |= {"access.key": connection.access_key, "secret.key": connection.secret_key}
    if connection.session_token:
        settings["session.token"] = connection.session_token
    return {f"fs.s3a.bucket.{bucket}.{key}": value for key, value in settings.items()}


def _s3_options(connection: StoreConnection) -> dict[str, str]:
    options = {"aws_region": connection.region or _DEFAULT_REGION, **_plain_http(connection)}
    if connection.endpoint:
        options |= {"aws_endpoint": connection.endpoint, "aws_virtual_hosted_style_request": "false"}
    if connection.access_key:
        options |= {"aws_access_key_id": connection.access_key, "aws_secret_access_key": connection.secret_key}
    if connection.session_token:
        options["aws_session_token"] = connection.session_token
    return options


def _azure_options(container: AzureContainer, connection: StoreConnection) -> dict[str, str]:
    options = {"azure_storage_account_name": container.account, **_plain_http(connection)}
    if connection.endpoint:
        # Of such a service, accounts are the first part of paths.
        options["azure_storage_endpoint"] = f"{connection.endpoint.rstrip('/')}/{container.account}"
    if connection.account_key:
        options["azure_storage_account_key"] = connection.account_key
    if connection.sas_token:
        options["azure_storage_sas_token"] = connection.sas_token
    return options


def _google_options(connection: StoreConnection) -> dict[str, str]:
    options = _plain_http(connection)
    if connection.endpoint:
        options["google_base_url"] = connection.endpoint
    if connection.anonymous:
        options["google_skip_signature"] = "true"
    return options


def _plain_http(connection: StoreConnection) -> dict[str, str]:
    return {"allow_http": "true"} if connection.endpoint.startswith("http:") else {}
