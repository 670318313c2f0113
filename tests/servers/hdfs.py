"""A real HDFS on 127.0.0.1 in a process of its own: one NameNode and one DataNode."""

from __future__ import annotations

import json
import os
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pyspark
from tests.servers.jars import server_jars

from headrace.connectors.java import java_command

_START_TIMEOUT_S = 240
# Of the jars that Spark ships.
_CLIENT = ("hadoop-client-*.jar", "*slf4j*.jar", "log4j*.jar", "commons-logging*.jar")


@contextmanager
def running_hdfs(folder):
    """The URI of its root; its files are in a folder."""
    folder.mkdir()
    details, log = folder / "details.json", folder / "hdfs.log"
    spark = Path(pyspark.__file__).with_name("jars")
    jars = [*server_jars("hdfs"), *(jar for names in _CLIENT for jar in sorted(spark.glob(names)))]
    command = [
        java_command(os.environ),
        *("-Xmx512m", "-XX:TieredStopAtLevel=1"),
        *("-cp", os.pathsep.join(map(str, jars)), "org.apache.hadoop.test.MiniDFSClusterManager"),
        *("-format", "-writeDetails", str(details), "-D", f"hdfs.minidfs.basedir={folder / 'data'}"),
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not (port := _port(details)):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(log.read_text())
            time.sleep(0.1)
        yield f"hdfs://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _port(details):
    try:
        return json.loads(details.read_text())["namenode_port"]
    except (OSError, ValueError):
        # It is being written.
        return None
