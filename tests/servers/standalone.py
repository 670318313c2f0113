"""A standalone cluster: a master and workers, each a process of its own, on this machine."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import psutil
import pyspark

_JARS = Path(pyspark.__file__).parent / "jars"
_STARTS_WITHIN_S = 120


@contextmanager
def standalone_cluster(folder: Path, *, workers: int = 2, cores: int = 1, memory: str = "1g") -> Iterator[str]:
    """The URL of the master of a cluster, whose workers have registered.

    Args:
        folder: for the logs and the workers' files.
        workers: how many.
        cores: of each worker.
        memory: of each worker, for its executors.
    """
    port, pages = _free_ports(2)
    url = f"spark://127.0.0.1:{port}"
    with ExitStack() as processes:
        master = ("master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(pages))
        processes.enter_context(_process(folder / "master", *master))
        for number in range(workers):
            sizes = ("--cores", str(cores), "--memory", memory, "--work-dir", str(folder / f"work-{number}"))
            words = ("worker.Worker", "--host", "127.0.0.1", "--webui-port", "0", *sizes, url)
            processes.enter_context(_process(folder / f"worker-{number}", *words))
        _wait_for_workers(pages, workers)
        yield url


@contextmanager
def _process(folder: Path, main: str, *words: str) -> Iterator[None]:
    folder.mkdir(parents=True)
    command = ["java", "-Xmx512m", "-cp", f"{_JARS}/*", f"org.apache.spark.deploy.{main}", *words]
    environ = {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": str(_JARS.parent),
        "SPARK_SCALA_VERSION": "2.13",
    }
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env=environ, start_new_session=True) as process,
    ):
        try:
            yield
        finally:
            executors = psutil.Process(process.pid).children(recursive=True)
            process.terminate()
            process.wait()
            psutil.wait_procs(executors, timeout=30)


def _wait_for_workers(pages: int, workers: int) -> None:
    end = time.monotonic() + _STARTS_WITHIN_S
    while time.monotonic() < end:
        if _alive_workers(pages) == workers:
            return
        time.sleep(0.2)
    raise TimeoutError(f"no {workers} workers within {_STARTS_WITHIN_S} s")


def _alive_workers(pages: int) -> int:
    try:
        with urlopen(f"http://127.0.0.1:{pages}/json/", timeout=5) as answer:
            return int(json.load(answer)["aliveworkers"])
    except (URLError, OSError):
        return 0


def _free_ports(number: int) -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
