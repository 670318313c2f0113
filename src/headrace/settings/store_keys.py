"""The keys of ``stores``: how buckets are reached."""

from __future__ import annotations

from headrace.settings.key import ValueType, used

STORE_KEYS = (
    used(
        "stores",
        ValueType.NAMED_SECTIONS,
        "How buckets are reached, by URI, such as `s3://lake`: [storage on S3](../how-to/storage-on-s3.md). Others are "
        "reached as the environment says. In a profile, it replaces the whole section.",
        "the variables and the workload identity of AWS",
        in_profile=True,
    ),
    used(
        "stores.*.endpoint",
        ValueType.TEXT,
        "URL of a service other than AWS's, such as `http://127.0.0.1:7070`.",
        "AWS",
    ),
    used("stores.*.region", ValueType.TEXT, "The region.", "`us-east-1`"),
    used(
        "stores.*.access_key",
        ValueType.TEXT,
        "Reference to the secret with the access key; `secret_key` is then needed too.",
        "the environment's",
    ),
    used("stores.*.secret_key", ValueType.TEXT, "Reference to the secret with the secret key.", "the environment's"),
    used("stores.*.session_token", ValueType.TEXT, "Reference to the secret with the token of a session.", "none"),
)
