"""The environment of a block: an empty folder, servers that start on first use, and tables of the harness."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.servers.kafka import USER, KafkaBroker
from tests.servers.receiver import Receiver, running_receiver

from headrace.connectors.java import java_command

# The event hub that the broker emulates.
_HUB = "hub"
_LOGIN, _STORE = "login.conf", "trusted.p12"
_STORE_PASSWORD = "changeit"  # noqa: S105 - of a store that holds public certificates
_STATE_FILES = {".zip": "RocksDB", ".changelog": "RocksDB", ".delta": "HDFS", ".snapshot": "HDFS"}
_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def java_options(folder: Path) -> str:
    """The Java options for a broker that requires a password: trust store and login.

    The broker of :class:`Servers` writes the files when it starts; Java reads them at the first connection.
    """
    trusted = f"-Djavax.net.ssl.trustStore={folder / _STORE} -Djavax.net.ssl.trustStorePassword={_STORE_PASSWORD}"
    return f"-Djava.security.auth.login.config={folder / _LOGIN} {trusted}"


class Servers:
    """Real servers on this machine; each starts on first use."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open = ExitStack()

    def close(self) -> None:
        """Stop the started servers."""
        self._open.close()

    @cached_property
    def kafka(self) -> KafkaBroker:
        """A single-process Kafka broker."""
        folder = self._folder / "kafka"
        folder.mkdir(parents=True)
        broker = KafkaBroker(folder, _HUB)
        self._open.callback(broker.stop)
        self._write_login(broker)
        broker.start()
        return broker

    @cached_property
    def receiver(self) -> Receiver:
        """An HTTP server that stores the requests."""
        found: Receiver = self._open.enter_context(running_receiver())
        return found

    def _write_login(self, broker: KafkaBroker) -> None:
        login = f'KafkaClient {{ {_MODULE} required username="{USER}" password="{broker.password}"; }};\n'
        (self._folder / _LOGIN).write_text(login, encoding="utf-8")
        tool = Path(java_command(os.environ)).resolve().with_name("keytool")
        words = ["-importcert", "-noprompt", "-alias", "broker", "-storetype", "PKCS12", "-storepass", _STORE_PASSWORD]
        files = ["-keystore", str(self._folder / _STORE), "-file", str(broker.trusted)]
        subprocess.run([str(tool), *words, *files], check=True, capture_output=True)


class Places(Mapping[str, str]):
    """The values of the names in a mapping's places; reading the name of a server starts the server.

    Args:
        servers: the test servers.
        folder: the folder of the block.
        names: additional names.
    """

    def __init__(self, servers: Servers, folder: Path, names: Mapping[str, Any]) -> None:
        self._servers, self._folder, self._names = servers, folder, names

    def __getitem__(self, name: str) -> str:
        match name:
            case "root":
                return str(self._folder)
            case "kafka":
                return str(self._servers.kafka.servers)
            case "secure_kafka":
                return str(self._servers.kafka.secure_servers)
            case "hub":
                return str(self._servers.kafka.password)
            case "http":
                return str(self._servers.receiver.url)
            case _:
                return str(self._names[name])

    def __iter__(self) -> Iterator[str]:
        return iter(("root", "kafka", "secure_kafka", "hub", "http"))

    def __len__(self) -> int:
        return len(list(iter(self)))


class Here:
    """The object ``here`` in code of mappings: writes rows, files and records where the block expects them."""

    def __init__(self, session: SparkSession, servers: Servers, folder: Path) -> None:
        self._session, self.servers, self.folder = session, servers, folder
        self._numbers = iter(range(1, 1_000_000))
        # The queries that write streams of the block to views, by view.
        self.shown: dict[str, StreamingQuery] = {}

    def path(self, place: str) -> Path:
        """A path inside the block's folder."""
        return self.folder / place.lstrip("/")

    def land(self, place: str, *rows: Mapping[str, Any] | str) -> Path:
        """Write a new file of JSON lines, or of raw lines, into a folder."""
        folder = self.path(place)
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"part-{next(self._numbers):04}{'' if '.' in folder.name else '.json'}"
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        draft = folder.parent / f".{file.name}"
        draft.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        draft.replace(file)
        return file

    def frame(self, columns: str, *rows: Sequence[Any]) -> DataFrame:
        """A DataFrame of rows; pass times as ISO texts, structs as dictionaries."""
        names = [field.split()[0] for field in _top_level(columns)]
        place = f"given/{next(self._numbers)}"
        self.land(place, *(dict(zip(names, row, strict=True)) for row in rows))
        return self._session.read.schema(columns).json(str(self.path(place)))

    def table(self, name: str, columns: str, *rows: Sequence[Any], properties: Mapping[str, str] | None = None) -> None:
        """Create a Delta table with these rows."""
        table_properties = ", ".join(f"'{key}' = '{value}'" for key, value in (properties or {}).items())
        if "." in name:
            self._session.sql(f"CREATE SCHEMA IF NOT EXISTS {name.rpartition('.')[0]}")
        # Outside any storage, so that neither scripts nor pipelines own the table.
        place = f"USING delta LOCATION '{self.path('given') / name}'"
        self._session.sql(
            f"CREATE TABLE {name} ({columns}) {place}"
            + (f" TBLPROPERTIES ({table_properties})" if table_properties else "")
        )
        if rows:
            self.add(name, *rows)

    def give_away(self) -> None:
        """Move the locations of all schemas out of any storage, so that their tables are external to a pipeline."""
        java: Any = self._session._jsparkSession  # noqa: SLF001 - SQL from Python counts as a script's
        for (schema,) in self._session.sql("SHOW SCHEMAS").collect():
            java.sql(f"ALTER DATABASE `{schema}` SET LOCATION '{self.path('given') / schema}'")

    def add(self, name: str, *rows: Sequence[Any]) -> None:
        """Append rows to a table, in one commit."""
        columns = self._session.table(name).schema
        ddl = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in columns)
        self.frame(ddl, *rows).write.format("delta").mode("append").saveAsTable(name)

    def stream(self, columns: str, *rows: Sequence[Any]) -> DataFrame:
        """A stream of a new Delta table with these rows."""
        place = str(self.path(f"given/stream{next(self._numbers)}"))
        self.frame(columns, *rows).write.format("delta").save(place)
        return self._session.readStream.format("delta").load(place)

    def topic(self, name: str, partitions: int = 1) -> None:
        """Create an empty topic; replaces an existing one."""
        known = self.servers.kafka._admin().list_topics(timeout=30).topics  # noqa: SLF001 - a test server of this project
        if name in known:
            self.servers.kafka.delete(name)
        self.servers.kafka.create(name, partitions)

    def send(self, topic: str, *values: Mapping[str, Any] | str, key: str | None = None) -> None:
        """Send records to a topic."""
        texts = [value if isinstance(value, str) else json.dumps(value) for value in values]
        self.servers.kafka.produce(topic, *texts, key=key)

    def records(self, topic: str) -> list[list[Any]]:
        """The keys and the parsed JSON values of a topic."""
        found = self.servers.kafka.records(topic)
        return [[None if one.key() is None else one.key().decode(), json.loads(one.value())] for one in found]

    def plan(self, frame: DataFrame) -> str:
        """The analyzed plan of a DataFrame, as text."""
        java: Any = frame._jdf  # noqa: SLF001 - plans have no public API
        return str(java.queryExecution().analyzed().toString())

    def kept_in(self, checkpoint: str) -> str:
        """The state store of a checkpoint: ``RocksDB``, or ``HDFS`` for the in-memory store with files of changes."""
        kinds = {file.suffix for file in self.path(checkpoint).glob("state/*/*/*") if file.suffix in _STATE_FILES}
        return " and ".join(sorted({_STATE_FILES[kind] for kind in kinds}))

    def forget(self, place: str) -> None:
        """Delete a folder."""
        shutil.rmtree(self.path(place))


def _top_level(columns: str) -> list[str]:
    """The top-level columns of a schema, without those inside structs and maps."""
    depth, found = 0, [""]
    for letter in columns:
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    return [column.strip() for column in found]
