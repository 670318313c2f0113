"""Reads ``stores`` of a settings file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from headrace.model.location import Location
from headrace.settings.check import Section
from headrace.settings.secrets import Secrets, has_reference, resolve
from headrace.settings.storage import StorageLayout
from headrace.stores.connection import StoreConnection
from headrace.stores.connections import add_connection
from headrace.stores.local_caches import set_cache_folder
from headrace.stores.uris import AZURE, GOOGLE, HDFS, S3, StoreUri, is_store_uri

_SECRETS = ("access_key", "secret_key", "session_token", "account_key", "sas_token")
# What can be said of a bucket, by the scheme of its URI.
_KEYS = {
    S3: ("endpoint", "region", "access_key", "secret_key", "session_token"),
    AZURE: ("endpoint", "account_key", "sas_token"),
    GOOGLE: ("endpoint", "anonymous"),
}
Report = Callable[..., None]


@dataclass(frozen=True)
class StoreSettings:
    """A bucket in the settings: how it is reached, with references in place of keys, and where that is written."""

    connection: StoreConnection
    location: Location


def stores_of(section: Section, file: str, report: Report) -> dict[str, StoreSettings]:
    """The buckets by their canonical URIs; problems go to *report* (code, line, parameters)."""
    return dict(_stores(section, file, report))


def _stores(section: Section, file: str, report: Report) -> Iterator[tuple[str, StoreSettings]]:
    for name, given in section.named_sections("stores").items():
        key = f"stores.{name}"
        try:
            uri = StoreUri.checked(name)
        except ValueError as error:
            wrong(report, given.line, key, str(error), "Write the URI of a bucket, such as s3://lake.")
            continue
        if uri.key:
            wrong(report, given.line, key, "it names a folder", f"Write the bucket: {uri.root}.")
            continue
        if uri.scheme == HDFS:
            fix = "Leave it out. HDFS is reached as the configuration in HADOOP_CONF_DIR says."
            wrong(report, given.line, key, "HDFS needs no entry", fix)
            continue
        texts: Any = {one: given.text(one) or "" for one in ("endpoint", "region", *_SECRETS)}
        anonymous = bool(given.flag("anonymous"))
        present = (*(one for one in texts if texts[one]), *(["anonymous"] if anonymous else ()))
        _check_keys(given, key, uri, present, report)
        for one in _SECRETS:
            if texts[one] and not has_reference(texts[one]):
                scope = uri.bucket.partition("@")[0]
                fix = f"Write a reference, such as ${{secret:{scope}/{one}}}."
                wrong(report, given.line_of(one), f"{key}.{one}", "it is a key in clear text", fix)
        if bool(texts["access_key"]) != bool(texts["secret_key"]):
            wrong(report, given.line, key, "it has one of access_key and secret_key", "Write both, or none of them.")
        if texts["endpoint"] and not texts["endpoint"].startswith(("http://", "https://")):
            fix = "Write a URL, such as https://s3.example.com."
            wrong(report, given.line_of("endpoint"), f"{key}.endpoint", "it is not a URL", fix)
        connection = replace(StoreConnection(anonymous=anonymous), **texts)
        yield uri.root, StoreSettings(connection, Location(file, given.line))


def _check_keys(given: Section, key: str, uri: StoreUri, present: Iterable[str], report: Report) -> None:
    """Report what is said of a bucket and has no meaning for its kind."""
    known = _KEYS[uri.scheme]
    for one in present:
        if one not in known:
            fix = f"For {uri.scheme}, write {', '.join(known)}."
            wrong(report, given.line_of(one), f"{key}.{one}", "it has no meaning for this store", fix)


def wrong(report: Report, line: int, key: str, reason: str, fix: str) -> None:
    """Report a wrong value."""
    report("SETTINGS.WRONG_VALUE", line, key=key, reason=reason, instead=fix)


def connect_stores(
    layout: StorageLayout,
    stores: Mapping[str, StoreSettings],
    secrets: Callable[[], Secrets],
    environ: Mapping[str, str],
) -> None:
    """Let this process reach the buckets as the settings say; references are replaced when a bucket is first used.

    Args:
        layout: of the pipeline's storage; without an entry in *stores*, its bucket is reached as the environment says.
        stores: by the URI of the bucket.
        secrets: opens the secrets.
        environ: the environment variables.
    """
    if is_store_uri(layout.root):
        set_cache_folder(layout.root, layout.local_root)
        uri = StoreUri.parse(layout.root)
        add_connection(uri.root, partial(_of_environment, uri, environ))
    for root, store in stores.items():
        add_connection(root, partial(_resolved, store, secrets, environ))


def _of_environment(uri: StoreUri, environ: Mapping[str, str]) -> StoreConnection:
    return StoreConnection.of_environment(environ) if uri.scheme == S3 else StoreConnection()


def _resolved(store: StoreSettings, secrets: Callable[[], Secrets], environ: Mapping[str, str]) -> StoreConnection:
    opened = secrets()
    texts: Any = {
        one: resolve(getattr(store.connection, one), opened, environ, location=store.location) for one in _SECRETS
    }
    return replace(store.connection, **texts)
