"""Probes of Kubernetes and of load balancers: answered under any name without a token, and nothing else is."""

from __future__ import annotations

import asyncio
import logging
import shutil
import threading

import pytest

from headrace.serve.guard import ANSWER_HEADERS
from headrace.serve.readiness import Readiness

POD = "10.244.1.7:8741"


@pytest.mark.parametrize(("path", "text"), [("/healthz", "ok\n"), ("/readyz", "ready\n")])
def test_probes_are_answered_under_any_host_name_without_a_token(busy_shop, served, path, text):
    stranger = served(busy_shop)

    answers = [stranger.call(path, method, host=host) for method in ("GET", "HEAD") for host in (POD, "evil", None)]

    assert {(one.status, one.text) for one in answers} == {(200, text)}
    for answer in answers:
        assert {name: answer.headers.get(name.lower()) for name in ANSWER_HEADERS} == dict(ANSWER_HEADERS)


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_probes_are_for_reading_and_not_for_pages_of_others(busy_shop, served, path):
    stranger = served(busy_shop)
    bearer = f"Bearer {stranger.token}"

    methods = [stranger.call(path, method, authorization=bearer).status for method in ("POST", "PUT", "OPTIONS")]

    assert methods == [405] * 3
    assert stranger.call(path, sec_fetch_site="cross-site", sec_fetch_mode="no-cors").status == 403
    assert stranger.call(path, content_length=1 << 21).status == 413


@pytest.mark.parametrize(
    "path",
    ["//healthz", "/healthz/", "/healthz/..", "/healthz/../p/shop", "/healthz.json", "/readyz/p/shop", "/Healthz"],
)
def test_paths_that_look_like_a_probe_are_guarded(busy_shop, served, path):
    stranger = served(busy_shop)

    assert stranger.call(path, host=POD).status == 421
    # Under our own name, the page for signing in comes first.
    assert stranger.call(path).status in (303, 401)


@pytest.mark.parametrize(
    ("path", "raw_path"), [("/healthz?x", None), ("/healthz?next=/p/shop", None), ("/healthz", "/%68ealthz")]
)
def test_what_else_is_in_the_url_of_a_probe_changes_nothing(browser, path, raw_path):
    assert browser.call(path, raw_path=raw_path, host=POD).body == b"ok\n"


def test_a_pipeline_that_cannot_be_read_is_counted_for_strangers_and_named_in_the_log(busy_shop, served, caplog):
    log = busy_shop.root / "storage" / "system" / "events" / "_delta_log"
    stranger = served(busy_shop)
    before = stranger.call("/readyz", host=POD)
    shutil.rmtree(log)
    log.mkdir()
    (log / "00000000000000000000.json").write_text("torn")
    within = stranger.call("/readyz", host=POD)
    busy_shop.clock.at = busy_shop.clock.at.replace(microsecond=0, minute=busy_shop.clock.at.minute + 1)

    answer = stranger.call("/readyz", host=POD)

    # Probes that follow at once do not read again.
    assert (before.status, within.status) == (200, 200)
    assert (answer.status, answer.text) == (503, "not ready: 1 of 1 pipelines\n")
    assert "not ready: pipeline shop: " in caplog.text
    # The process itself is well: it must not be started again.
    assert stranger.call("/healthz", host=POD).status == 200


def test_a_server_that_stops_is_healthy_and_not_ready(busy_shop, served):
    stranger = served(busy_shop, is_stopping=lambda: True)

    assert (stranger.call("/readyz").status, stranger.call("/healthz").status) == (503, 200)


def test_a_storage_that_hangs_costs_one_thread_and_a_bounded_time(caplog):
    seconds, released, calls = [0.0], threading.Event(), []

    def hangs():
        calls.append(True)
        released.wait(60)

    async def probes():
        readiness = Readiness(
            {"shop": hangs, "planes": lambda: None}, bool, lambda: seconds[0], str.upper, timeout_s=0.05
        )
        first = await asyncio.gather(*(readiness.answer() for _ in range(20)))
        seconds[0] = 60
        late = await asyncio.wait_for(readiness.answer(), 10)
        assert len(calls) == 1
        released.set()
        while (after := await readiness.answer()).status_code != 200:
            await asyncio.sleep(0.01)
            seconds[0] += 1
        return [*first, late], after

    not_ready, after = asyncio.run(probes())

    assert {(one.status_code, one.body) for one in not_ready} == {(503, b"not ready: 1 of 2 pipelines\n")}
    assert after.body == b"ready\n"
    # What is wrong is logged once, and without secrets.
    messages = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert messages == [
        "not ready: pipeline shop: ITS STORAGE HAS NOT ANSWERED WITHIN 0.05 S",
        "ready again: pipeline shop",
    ]
