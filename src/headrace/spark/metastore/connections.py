"""Opens connections to the metastores of a pipeline's settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import SparkSession

from headrace.catalogs.client import MetastoreClient
from headrace.settings.catalogs import CatalogSettings
from headrace.settings.secrets import Secrets
from headrace.spark.metastore.hive_client import HiveMetastore


def metastore_connector(
    session: Callable[[], SparkSession], secrets: Secrets, environ: Mapping[str, str]
) -> Callable[[CatalogSettings], MetastoreClient]:
    """A function that opens a connection to a metastore.

    Args:
        session: opens the session, whose Java process connects.
        secrets: looked up when a connection is opened.
        environ: the process environment.
    """

    def connect(catalog: CatalogSettings) -> MetastoreClient:
        return HiveMetastore(session(), catalog.name, catalog.uri, catalog.resolved_conf(secrets, environ))

    return connect
