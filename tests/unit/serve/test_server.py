"""The server as a process: it prints where to sign in, answers over HTTP, and stops when it is asked to."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager

import pytest

from headrace.cli.main import call


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextmanager
def running(shop, port, *words):
    command = [sys.executable, "-m", "headrace", "serve", "--listen", f"127.0.0.1:{port}", *words]
    environ = {**os.environ, "XDG_CONFIG_HOME": str(shop.root / "config")}
    process = subprocess.Popen(
        command, cwd=shop.root, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def get(port, path, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_prints_where_to_sign_in_once_answers_and_stops_with_0(busy_shop, number):
    port = free_port()
    with running(busy_shop, port) as server:
        named, first = server.stdout.readline(), server.stdout.readline()
        token = re.search(r"token=(\S+)", first)[1]
        server.stdout.readline()

        login, _ = get(port, f"/login?token={token}")
        page, body = get(port, "/p/shop", Cookie=login.getheader("set-cookie").partition(";")[0])
        api, names = get(port, "/api/v1/pipelines", Authorization=f"Bearer {token}")
        # A browser that listens for events does not keep it from stopping.
        listening = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        accept = {"Accept": "text/event-stream", "Authorization": f"Bearer {token}"}
        listening.request("GET", "/api/v1/pipelines/shop/events", headers=accept)
        stream = listening.getresponse()
        assert stream.readline() == b"retry: 3000\n"
        server.send_signal(number)
        rest, errors = server.communicate(timeout=60)
        listening.close()

    assert (named, login.status, page.status, b"revenue" in body) == ("serving shop\n", 303, 200, True)
    assert (api.status, json.loads(names)["pipelines"][0]["name"]) == (200, "shop")
    assert (server.returncode, rest, token in errors) == (0, "stopped\n", False)
    with running(busy_shop, port) as again:
        again.stdout.readline()
        assert again.stdout.readline() == f"http://127.0.0.1:{port}/\n"


def test_a_port_that_is_taken_is_named(busy_shop, monkeypatch, capsys):
    monkeypatch.chdir(busy_shop.root)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(busy_shop.root / "config"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code = call(["serve", "--listen", f"127.0.0.1:{port}", "--output", "json"])

    assert (code, json.loads(capsys.readouterr().out)["error"]["code"]) == (1, "SERVE.PORT")


@pytest.mark.parametrize(
    ("words", "code"), [(("--listen", "0.0.0.0:8741"), "SERVE.NOT_LOOPBACK"), (("--also", "no"), "CLI.NO_FOLDER")]
)
def test_what_cannot_be_served_is_refused_by_name(busy_shop, monkeypatch, capsys, words, code):
    monkeypatch.chdir(busy_shop.root)

    assert call(["serve", *words, "--output", "json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == code


def test_without_its_packages_the_server_names_what_to_install(busy_shop, monkeypatch, capsys):
    monkeypatch.chdir(busy_shop.root)
    for name in [name for name in sys.modules if name.startswith(("headrace.serve", "starlette", "uvicorn"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)

    assert call(["serve", "--output", "json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["code"], error["hint"]) == ("SERVE.NOT_INSTALLED", 'Install them: pip install "headrace[serve]".')
