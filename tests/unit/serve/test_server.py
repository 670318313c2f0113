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
from tests.unit.project.test_requests import until

import headrace.serve
from headrace.cli.main import call


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextmanager
def running(shop, port, *words, shell=()):
    command = [*shell, sys.executable, "-m", "headrace", "serve", "--listen", f"127.0.0.1:{port}", *words]
    environ = {**os.environ, "XDG_CONFIG_HOME": str(shop.root / "config")}
    process = subprocess.Popen(
        command,
        cwd=shop.root,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
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


def test_a_server_prints_where_to_sign_in_once_answers_and_stops_with_0(busy_shop):
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
        server.send_signal(signal.SIGTERM)
        rest, errors = server.communicate(timeout=60)
        listening.close()

    assert (named, login.status, page.status, b"revenue" in body) == ("serving shop\n", 303, 200, True)
    assert (api.status, json.loads(names)["pipelines"][0]["name"]) == (200, "shop")
    assert (server.returncode, rest, token in errors) == (0, "stopped\n", False)
    with running(busy_shop, port) as again:
        again.stdout.readline()
        assert again.stdout.readline() == f"http://127.0.0.1:{port}/\n"


@pytest.mark.parametrize("trap", ["trap - INT", "trap '' INT"])
def test_sigint_stops_a_server_also_if_the_shell_ignores_it_in_the_background(busy_shop, trap):
    port = free_port()
    with running(busy_shop, port, shell=["sh", "-c", f'{trap}; exec "$0" "$@"']) as server:
        server.stdout.readline()
        get(port, "/")
        server.send_signal(signal.SIGINT)

        rest, _ = server.communicate(timeout=60)

    assert (server.returncode, rest.splitlines()[-1]) == (0, "stopped")


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
    # The failing import leaves a package without its modules there, which later tests would find.
    monkeypatch.setattr(headrace, "serve", headrace.serve)
    for name in [name for name in sys.modules if name.startswith(("headrace.serve", "starlette", "uvicorn"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)

    assert call(["serve", "--output", "json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["code"], error["hint"]) == ("SERVE.NOT_INSTALLED", 'Install them: pip install "headrace[serve]".')


def post(port, path, token, key):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Idempotency-Key": key}
    connection.request("POST", path, "{}", headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


def report(port, path, token):
    return json.loads(get(port, path, Authorization=f"Bearer {token}")[1])


@pytest.mark.long(
    guard="tests/unit/serve/test_writes.py::test_a_request_with_a_key_is_done_once_and_answered_in_the_same_way"
)
def test_a_request_is_done_once_also_if_the_server_is_killed(busy_shop):
    """With the real command line: the words of the API are words of its verbs."""
    settings = busy_shop.root / "pipeline.yml"
    settings.write_text(f"{settings.read_text()}\nschedules: {{nightly: {{cron: '0 2 * * *'}}}}\n")
    url, port = "/api/v1/pipelines/shop", free_port()
    with running(busy_shop, port) as server:
        server.stdout.readline()
        token = re.search(r"token=(\S+)", server.stdout.readline())[1]
        until(lambda: post(port, f"{url}/schedules/nightly/pause", token, "k")[0] == 202)
        first = post(port, f"{url}/schedules/nightly/pause", token, "k")
        server.kill()
    with running(busy_shop, port) as server:
        server.stdout.readline()
        until(lambda: post(port, f"{url}/schedules/nightly/pause", token, "k")[0] == 202)
        again = post(port, f"{url}/schedules/nightly/pause", token, "k")
        until(lambda: report(port, f"{url}/requests/k", token)["ended_at"])
        found = report(port, f"{url}/requests/k", token)
        schedules = report(port, f"{url}/schedules", token)["schedules"]

    assert first == again
    assert (found["state"], found["result"]["state"], schedules[0]["paused_by"]) == ("COMPLETED", "paused", "admin")
    assert token not in "".join(file.read_text(errors="replace") for file in busy_shop.root.rglob("*.log"))
