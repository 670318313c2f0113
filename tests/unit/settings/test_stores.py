"""The section ``stores``: how buckets are reached, with keys that are references alone."""

from __future__ import annotations

import pytest

from headrace.errors import Problems
from headrace.settings.load import load_settings
from headrace.stores.connections import connection_of, delta_options
from headrace.stores.uris import StoreUri


def settings_of(tmp_path, stores, environ=None):
    (tmp_path / "pipeline.yml").write_text(f"name: shop\nstorage: s3://lake/shop\nstores:\n{stores}", encoding="utf-8")
    (tmp_path / "transformations").mkdir(exist_ok=True)
    (tmp_path / "transformations" / "a.py").touch()
    return load_settings(tmp_path / "pipeline.yml", environ=environ or {})


def test_a_bucket_is_reached_as_the_settings_say(tmp_path):
    stores = (
        "  s3://lake:\n    endpoint: http://here:1\n    access_key: ${env:A_KEY}\n    secret_key: ${env:A_SECRET}\n"
    )

    settings_of(tmp_path, stores, {"A_KEY": "given-key", "A_SECRET": "given-secret"})

    options = delta_options("s3a://lake/shop")
    assert {"given-key", "given-secret", "http://here:1"} <= set(options.values())


def test_keys_are_in_no_repr_of_settings(tmp_path):
    stores = "  s3://lake:\n    access_key: ${env:A_KEY}\n    secret_key: ${env:A_SECRET}\n"

    settings = settings_of(tmp_path, stores, {"A_KEY": "given-key", "A_SECRET": "given-secret"})

    assert "A_KEY" not in repr(settings.stores)


@pytest.mark.parametrize(
    ("stores", "reason"),
    [
        ("  s3://lake:\n    access_key: AKIA\n    secret_key: ${env:S}\n", "clear text"),
        ("  s3://lake:\n    access_key: ${env:A}\n", "one of access_key"),
        ("  s3://lake/shop:\n    region: here\n", "names a folder"),
        ("  wasb://lake:\n    region: here\n", "not the scheme"),
        ("  s3://lake:\n    endpoint: here:1\n", "not a URL"),
        ("  abfss://lake@account.dfs.core.windows.net:\n    account_key: shown\n", "clear text"),
        ("  abfss://lake@account.dfs.core.windows.net:\n    region: here\n", "no meaning for this store"),
        ("  abfss://key:secret@account:\n    endpoint: http://here\n", "credentials do not belong"),
        ("  gs://lake:\n    account_key: ${env:A}\n", "no meaning for this store"),
        ("  hdfs://namenode:8020:\n    endpoint: http://here\n", "HDFS needs no entry"),
    ],
)
def test_a_store_that_cannot_be_right_is_refused(tmp_path, stores, reason):
    with pytest.raises(Problems, match=reason):
        settings_of(tmp_path, stores)


def test_a_storage_on_s3_brings_its_connector_and_keeps_local_files_in_the_project(tmp_path):
    settings = settings_of(tmp_path, "  s3://lake: {region: here}\n")

    assert settings.all_connectors == ("s3",)
    assert settings.layout.logs.startswith(str(tmp_path / ".headrace"))
    assert str(settings.layout.lease) == "s3a://lake/shop/lease.json"


def test_containers_and_buckets_of_other_clouds_are_reached_as_the_settings_say(tmp_path):
    stores = (
        "  abfss://lake@account.dfs.core.windows.net:\n    account_key: ${env:A_KEY}\n    endpoint: http://here:1\n"
        "  gs://lake:\n    anonymous: true\n"
    )

    settings = settings_of(tmp_path, stores, {"A_KEY": "given-key"})

    assert delta_options("abfss://lake@account.dfs.core.windows.net/shop") == {
        "allow_http": "true",
        "azure_storage_account_name": "account",
        "azure_storage_account_key": "given-key",
        "azure_storage_endpoint": "http://here:1/account",
    }
    assert delta_options("gs://lake/shop") == {"google_skip_signature": "true"}
    assert "given-key" not in repr(
        (settings.stores, connection_of(StoreUri.parse("abfs://lake@account.dfs.core.windows.net")))
    )
