"""A Hive metastore of Spark's own jars, in a process of its own, with a database in a folder."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

_JARS = Path(pyspark.__file__).parent / "jars"
_MAIN = "org.apache.hadoop.hive.metastore.HiveMetaStore"
_STARTS_WITHIN_S = 180
_SITE = """<configuration>
<property><name>javax.jdo.option.ConnectionURL</name><value>jdbc:derby:;databaseName={folder}/db;create=true</value></property>
<property><name>datanucleus.schema.autoCreateAll</name><value>true</value></property>
<property><name>hive.metastore.schema.verification</name><value>false</value></property>
<property><name>hive.async.log.enabled</name><value>false</value></property>
<property><name>hive.metastore.warehouse.dir</name><value>{folder}/warehouse</value></property>
</configuration>
"""


@dataclass
class Metastore:
    """A metastore that can be stopped, and started again with what it has stored."""

    folder: Path
    port: int
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def uri(self) -> str:
        return f"thrift://127.0.0.1:{self.port}"

    def start(self) -> None:
        conf = self.folder / "conf"
        conf.mkdir(parents=True, exist_ok=True)
        (conf / "hive-site.xml").write_text(_SITE.format(folder=self.folder), encoding="utf-8")
        # It answers few requests: what the JVM compiles well takes longer than it saves.
        options = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
        command = ["java", *options, "-cp", f"{conf}:{_JARS}/*", _MAIN, "-p", str(self.port)]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=os.environ
            )
        self._wait()

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        # Derby's own lock of a process that has ended.
        for lock in self.folder.glob("db/*.lck"):
            lock.unlink()

    def _wait(self) -> None:
        end = time.monotonic() + _STARTS_WITHIN_S
        while not _listens(self.port):
            if self._process is None or self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError((self.folder / "log").read_text(encoding="utf-8"))
            time.sleep(0.1)


@contextmanager
def running_metastore(folder: Path) -> Iterator[Metastore]:
    """A metastore whose database is in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = int(found.getsockname()[1])
    metastore = Metastore(folder, port)
    try:
        metastore.start()
        yield metastore
    finally:
        metastore.stop()


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
