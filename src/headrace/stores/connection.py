"""How a bucket is reached: endpoint, region and credentials, as settings say it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class StoreConnection:
    """How a bucket is reached. What is empty, the libraries find in the environment.

    Attributes:
        endpoint: the URL of another service than that of the cloud.
        region: the region of a bucket on S3.
        access_key: with ``secret_key``, the credentials for S3.
        secret_key: see ``access_key``.
        session_token: of credentials for S3 that expire.
        account_key: the key of an Azure account.
        sas_token: a shared access signature of Azure.
        anonymous: a bucket of Google is read without credentials.
    """

    endpoint: str = ""
    region: str = ""
    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)
    account_key: str = field(default="", repr=False)
    sas_token: str = field(default="", repr=False)
    anonymous: bool = False

    @classmethod
    def of_environment(cls, environ: Mapping[str, str]) -> StoreConnection:
        """What the environment says of buckets on S3, apart from credentials, which each library finds itself."""
        endpoint = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL", "")
        return cls(endpoint, environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION", ""))
