"""The keys of ``catalogs``: the metastores in which tables of the pipeline appear."""

from __future__ import annotations

from headrace.settings.key import ValueType, used

HIVE = "hive"

CATALOG_KEYS = (
    used(
        "catalogs",
        ValueType.NAMED_SECTIONS,
        "Metastores, by the name of their catalog: tables of this catalog [are published]"
        "(../how-to/publish-to-a-metastore.md) there. In a profile, it replaces the whole section.",
        "none",
        in_profile=True,
    ),
    used("catalogs.*.type", ValueType.TEXT, "The kind of metastore: `hive`.", "`hive`"),
    used(
        "catalogs.*.uri",
        ValueType.TEXT,
        "Its address, such as `thrift://metastore:9083`; several are separated by commas. Required.",
    ),
    used(
        "catalogs.*.publish",
        ValueType.TEXTS,
        "The datasets that are published there. An empty list publishes none.",
        "all of this catalog that are not private",
    ),
    used(
        "catalogs.*.conf",
        ValueType.MAP,
        "Settings of the metastore's client, such as `hive.metastore.sasl.enabled`, on top of the `hive-site.xml` on "
        "Spark's class path. Passwords are references to secrets.",
        "empty",
    ),
)
