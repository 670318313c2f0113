"""The keys of ``stores``: how buckets are reached."""

from __future__ import annotations

from headrace.settings.key import ValueType, used

STORE_KEYS = (
    used(
        "stores",
        ValueType.NAMED_SECTIONS,
        "How buckets are reached, by URI, such as `s3://lake`: [storage on S3](../how-to/storage-on-s3.md), "
        "[other stores](../how-to/storage-elsewhere.md). Others are reached as the environment says. In a profile, it "
        "replaces the whole section.",
        "the variables and the workload identity of the cloud",
        in_profile=True,
    ),
    used(
        "stores.*.endpoint",
        ValueType.TEXT,
        "URL of another service than the cloud's own, such as `http://127.0.0.1:7070`.",
        "the cloud's",
    ),
    used("stores.*.region", ValueType.TEXT, "The region of a bucket on S3.", "`us-east-1`"),
    used(
        "stores.*.access_key",
        ValueType.TEXT,
        "Reference to the secret with the access key for S3; `secret_key` is then needed too.",
        "the environment's",
    ),
    used("stores.*.secret_key", ValueType.TEXT, "Reference to the secret with the secret key.", "the environment's"),
    used("stores.*.session_token", ValueType.TEXT, "Reference to the secret with the session's token, for S3.", "none"),
    used("stores.*.account_key", ValueType.TEXT, "Reference to the secret with the key of an Azure account.", "none"),
    used("stores.*.sas_token", ValueType.TEXT, "Reference to the secret with a signature (SAS) for Azure.", "none"),
    used("stores.*.anonymous", ValueType.BOOLEAN, "Read a bucket of Google without credentials.", "`false`"),
    used(
        "allow_untried_storage",
        ValueType.BOOLEAN,
        "Let the storage be on Azure or Google Cloud Storage, where none was ever run: "
        "[other stores](../how-to/storage-elsewhere.md).",
        "`false`",
    ),
)
