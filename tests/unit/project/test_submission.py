"""The commands of ``spark-submit`` for each kind of cluster; ``HEADRACE_GOLDEN=rewrite`` writes them."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.errors import PipelineError
from headrace.project.submission.command import DeployMode, SubmitRequest, Tools, submit_command
from headrace.project.submission.process import run_submitted
from headrace.settings.load import load_settings

GOLDEN = Path(__file__).parent / "golden"
SETTINGS = """\
name: shop
connectors: [kafka]
spark_conf:
  spark.driver.memory: 4g
  spark.executor.memory: 2g
  spark.kubernetes.container.image: shop:7
  spark.hadoop.fs.s3a.secret.key: plain
  spark.my.url: ${env:URL}
profiles:
  production:
    master: yarn
"""
MASTERS = {
    "standalone": SubmitRequest(
        ("--output", "json", "run"), "spark://master:7077", None, {"spark.executor.cores": "2"}
    ),
    "yarn": SubmitRequest(("run", "--refresh", "orders")),
    "kubernetes-client": SubmitRequest(master="k8s://https://host:6443"),
    "kubernetes-cluster": SubmitRequest(master="k8s://https://host:6443", mode=DeployMode.CLUSTER),
}


@pytest.fixture
def shop(tmp_path):
    return tmp_path / "shop"


def command(shop, request, settings=SETTINGS, profile="production"):
    shop.mkdir(exist_ok=True)
    (shop / "pipeline.yml").write_text(settings)
    tools = Tools(
        Path("/venv/pyspark"),
        "/venv/bin/python3",
        Path("/venv/headrace/__main__.py"),
        lambda names: [Path(name) for name in (*names, "delta")],
    )
    return submit_command(load_settings(shop / "pipeline.yml", profile=profile, environ={}), request, tools)


@pytest.mark.parametrize("name", MASTERS)
def test_the_command_for_each_kind_of_cluster(shop, name):
    text = command(shop, MASTERS[name]).describe().replace(str(shop), "/shop") + "\n"

    file = GOLDEN / f"submit-{name}.txt"
    if os.environ.get("HEADRACE_GOLDEN") == "rewrite":
        file.write_text(text)
    assert text == file.read_text()


@pytest.mark.parametrize(
    ("request_", "settings", "code"),
    [
        (SubmitRequest(master="local[2]"), SETTINGS, "SUBMIT.MASTER"),
        (SubmitRequest(master="spark://m:7077", mode=DeployMode.CLUSTER), SETTINGS, "SUBMIT.DEPLOY_MODE"),
        (SubmitRequest(mode=DeployMode.CLUSTER), SETTINGS, "SUBMIT.DEPLOY_MODE"),
        (SubmitRequest(master="k8s://https://host"), SETTINGS.replace("container.image", "other"), "SUBMIT.NO_IMAGE"),
        (
            SubmitRequest(),
            SETTINGS.replace("spark.executor.memory: 2g", "spark.submit.deployMode: both"),
            "SETTINGS.WRONG_VALUE",
        ),
        (SubmitRequest(confs={"spark.my.password": "x"}), SETTINGS, "SUBMIT.SECRET"),
        (SubmitRequest(), SETTINGS.replace("4g", "${env:MEMORY}"), "SUBMIT.SECRET"),
    ],
)
def test_what_cannot_be_submitted_is_refused(shop, request_, settings, code):
    with pytest.raises(PipelineError) as raised:
        command(shop, request_, settings)

    assert raised.value.code == code


def submitted_to(script, shop, tmp_path, entry="main.py"):
    """A command of a ``spark-submit`` that is a shell script."""
    submit = tmp_path / "spark" / "bin" / "spark-submit"
    submit.parent.mkdir(parents=True)
    submit.write_text(f"#!/bin/sh\n{script}\n")
    submit.chmod(0o755)
    return replace(command(shop, MASTERS["yarn"]), spark_home=tmp_path / "spark", program=(entry, "run"))


def test_the_exit_code_of_the_driver_comes_back(shop, tmp_path):
    script = '[ "$SPARK_HOME" = "${0%/bin/spark-submit}" ] && [ "$PWD" = "$WANTED" ] && exit 3'

    assert run_submitted(submitted_to(script, shop, tmp_path), {**os.environ, "WANTED": str(shop)}) == 3


@pytest.fixture
def _interruptible():
    """Python's own reaction to SIGINT: a process that is started in the background, or another test, may have none."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
def test_an_interrupt_stops_the_driver_in_an_orderly_way(shop, tmp_path):
    entry, ready = tmp_path / "main.py", tmp_path / "ready"
    entry.write_text(
        "import pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
        f"pathlib.Path({str(ready)!r}).touch()\n"
        "time.sleep(60)\n"
    )
    made = submitted_to(
        f"sleep 60 & {sys.executable} {entry} run; code=$?; kill $!; exit $code", shop, tmp_path, str(entry)
    )
    main = threading.get_ident()

    def interrupt():
        while not ready.exists():
            time.sleep(0.01)
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()

    assert run_submitted(made, os.environ) == 7
