"""A Hive metastore, through the client of Hive that is among Spark's jars."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from headrace.catalogs.entry import CatalogEntry
from headrace.errors import PipelineError

# Settings of the client that suit an update: it goes on without a metastore that does not answer.
_DEFAULTS = {
    "hive.metastore.connect.retries": "1",
    "hive.metastore.failure.retries": "1",
    "hive.metastore.client.connect.retry.delay": "1s",
    "hive.metastore.client.socket.timeout": "20s",
}
# What Spark itself stores for a Delta table, whose columns Hive cannot read: a column that stands for them, formats of
# files, and a location that is never used. The real one is a parameter of the format.
_COLUMN = ("col", "array<string>", "from deserializer")
_FORMAT = (
    "org.apache.hadoop.mapred.SequenceFileInputFormat",
    "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat",
    "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
)
_EXTERNAL = "EXTERNAL_TABLE"
_LONGEST_REASON = 300
_UNREACHABLE = ("Could not connect to meta store", "TTransportException", "SocketException", "ConnectException")


class HiveMetastore:
    """A connection to a Hive metastore, for one thread.

    Args:
        session: the session whose Java process connects.
        catalog: the name of the catalog, for errors.
        uri: of the metastore.
        conf: settings of the client, without references; never shown.

    Raises:
        PipelineError: CATALOG.UNAVAILABLE.
    """

    def __init__(self, session: SparkSession, catalog: str, uri: str, conf: Mapping[str, str]) -> None:
        self._catalog = catalog
        self._uri = uri
        jvm: Any = session._jvm  # noqa: SLF001 - PySpark's way to Java
        self._hive: Any = jvm.org.apache.hadoop.hive.metastore.api
        self._lists: Any = jvm.java.util.ArrayList
        self._maps: Any = jvm.java.util.HashMap
        try:
            hive_conf = jvm.org.apache.hadoop.hive.conf.HiveConf()
        except TypeError as error:
            # Without the class, py4j takes its name for that of a package.
            reason = "Spark was built without Hive"
            raise PipelineError("CATALOG.UNAVAILABLE", catalog=catalog, uri=uri, reason=reason) from error
        for key, value in {**_DEFAULTS, **conf, "hive.metastore.uris": uri}.items():
            hive_conf.set(key, value)
        try:
            self._client: Any = jvm.org.apache.hadoop.hive.metastore.HiveMetaStoreClient(hive_conf)
        except Py4JError as error:
            raise PipelineError("CATALOG.UNAVAILABLE", catalog=catalog, uri=uri, reason=self._reason(error)) from error

    def find(self, schema: str, names: Iterable[str]) -> Mapping[str, CatalogEntry]:
        """The entries of a schema with one of the names."""
        wanted = self._lists()
        for name in names:
            wanted.add(name)
        try:
            found = self._client.getTableObjectsByName(schema, wanted)
        except Py4JJavaError as error:
            if _class_of(error) == "UnknownDBException":
                return {}
            self._fail(error, f'read tables of "{schema}"')
        entries = (self._entry(table) for table in found)
        return {entry.name: entry for entry in entries}

    def create(self, entry: CatalogEntry) -> bool:
        """Create an entry, and its schema."""
        try:
            folder = self._folder_of(entry.schema)
            self._client.createTable(self._table(entry, f"{folder}/{entry.name}-__PLACEHOLDER__"))
        except Py4JJavaError as error:
            if _class_of(error) == "AlreadyExistsException":
                return False
            self._fail(error, f'create "{entry.table}"')
        return True

    def replace(self, name: str, entry: CatalogEntry) -> None:
        """Replace the entry of a name."""
        try:
            table = self._client.getTable(entry.schema, name)
            table.setTableName(entry.name)
            table.setParameters(self._java_map(entry.parameters))
            table.getSd().getSerdeInfo().setParameters(self._java_map(_serde_of(entry)))
            self._client.alter_table(entry.schema, name, table)
        except Py4JJavaError as error:
            self._fail(error, f'change "{entry.schema}.{name}"')

    def close(self) -> None:
        """Close the connection."""
        try:
            self._client.close()
        except Py4JError:
            # Whatever was to be done is done.
            return

    def _folder_of(self, schema: str) -> str:
        """The folder of a schema, which is created if it does not exist: the metastore knows where."""
        try:
            return str(self._client.getDatabase(schema).getLocationUri()).rstrip("/")
        except Py4JJavaError as error:
            if _class_of(error) != "NoSuchObjectException":
                raise
        try:
            self._client.createDatabase(self._hive.Database(schema, "", None, self._maps()))
        except Py4JJavaError as error:
            if _class_of(error) != "AlreadyExistsException":
                raise
        return str(self._client.getDatabase(schema).getLocationUri()).rstrip("/")

    def _table(self, entry: CatalogEntry, unused_folder: str) -> Any:
        input_format, output_format, serde = _FORMAT
        formats = self._hive.SerDeInfo()
        formats.setSerializationLib(serde)
        formats.setParameters(self._java_map(_serde_of(entry)))
        storage = self._hive.StorageDescriptor()
        columns = self._lists()
        columns.add(self._hive.FieldSchema(*_COLUMN))
        storage.setCols(columns)
        storage.setInputFormat(input_format)
        storage.setOutputFormat(output_format)
        storage.setSerdeInfo(formats)
        storage.setLocation(unused_folder)
        table = self._hive.Table()
        table.setDbName(entry.schema)
        table.setTableName(entry.name)
        table.setTableType(_EXTERNAL)
        table.setPartitionKeys(self._lists())
        table.setParameters(self._java_map(entry.parameters))
        table.setSd(storage)
        return table

    def _entry(self, table: Any) -> CatalogEntry:
        serde = table.getSd().getSerdeInfo()
        found = dict(serde.getParameters() or {}) if serde is not None else {}
        location = found.get("path") or table.getSd().getLocation() or ""
        parameters = {str(key): str(value) for key, value in dict(table.getParameters() or {}).items()}
        return CatalogEntry(str(table.getDbName()), str(table.getTableName()), str(location), parameters)

    def _java_map(self, values: Mapping[str, str]) -> Any:
        found = self._maps()
        for key, value in values.items():
            found.put(key, value)
        return found

    def _fail(self, error: Py4JJavaError, action: str) -> NoReturn:
        reason = self._reason(error)
        if _class_of(error) == "TTransportException" or any(sign in reason for sign in _UNREACHABLE):
            raise PipelineError("CATALOG.UNAVAILABLE", catalog=self._catalog, uri=self._uri, reason=reason) from error
        raise PipelineError("CATALOG.REFUSED", catalog=self._catalog, action=action, reason=reason) from error

    def _reason(self, error: Py4JError) -> str:
        """The first line of what Hive says."""
        java = getattr(error, "java_exception", None)
        text = str(error) if java is None else str(java.getMessage() or java.getClass().getSimpleName())
        line = text.strip().partition("\n")[0].strip().rstrip(".")
        return line[:_LONGEST_REASON] or _class_of(error)


def _serde_of(entry: CatalogEntry) -> dict[str, str]:
    return {"path": entry.location, "serialization.format": "1"}


def _class_of(error: Py4JError) -> str:
    java = getattr(error, "java_exception", None)
    return "" if java is None else str(java.getClass().getSimpleName())
