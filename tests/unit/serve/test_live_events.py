"""New events reach every browser once and in order, and one that comes back gets what it missed."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta

from headrace.events.types import UpdateStateChanged
from headrace.model.outcome import UpdateState
from headrace.serve.live_events import EventFilter, LiveEvents
from headrace.serve.pipelines import ServedPipeline
from headrace.settings.load import load_settings


def pipeline_of(shop):
    settings = load_settings(shop.root / "pipeline.yml", environ={})
    return ServedPipeline("shop", settings, {}, shop.clock.seconds, shop.clock.seconds)


def parsed(text):
    fields = dict(line.split(": ", 1) for line in text.strip().split("\n") if not line.startswith(":"))
    return (int(fields["id"]), json.loads(fields["data"])["message"]) if "id" in fields else None


async def collected(stream, wanted):
    """So many events of a stream."""
    found = []
    async for text in stream:
        event = parsed(text)
        if event is not None:
            found.append(event)
        if len(found) == wanted:
            await stream.aclose()
            return found
    return found


def test_all_browsers_get_new_events_in_order_from_one_reader(busy_shop):
    pipeline = pipeline_of(busy_shop)
    opened = []
    events = pipeline.events
    pipeline.events = lambda: opened.append(1) or events()

    async def scenario():
        live = LiveEvents(pipeline, lambda: False, poll_s=0.01)
        listening = [asyncio.create_task(collected(live.listen(None), 2)) for _ in range(20)]
        await asyncio.sleep(0.3)
        busy_shop.clock.at += timedelta(minutes=1)
        busy_shop.update("cccc", UpdateStateChanged(UpdateState.COMPLETED))
        return await asyncio.wait_for(asyncio.gather(*listening), 60)

    found = asyncio.run(scenario())

    assert len(opened) == 1
    assert all(one == found[0] for one in found)
    assert [message for _, message in found[0]] == ["update created by USER_ACTION of ann", "update is COMPLETED"]


def test_a_browser_that_comes_back_gets_what_it_missed(busy_shop):
    pipeline = pipeline_of(busy_shop)
    rows = list(pipeline.events().events())
    known = rows[-3]["sequence"]["data_plane_id"]["seq_no"]

    async def scenario():
        live = LiveEvents(pipeline, lambda: False, poll_s=0.01)
        return await asyncio.wait_for(collected(live.listen(known), 2), 60)

    assert [message for _, message in asyncio.run(scenario())] == [row["message"] for row in rows[-2:]]


def test_events_that_a_browser_does_not_want_only_move_its_place(busy_shop):
    pipeline = pipeline_of(busy_shop)
    wanted = EventFilter(frozenset({"update_progress"}))

    async def scenario():
        live = LiveEvents(pipeline, lambda: False, poll_s=0.01)
        stream = live.listen(None, wanted)
        texts = [await anext(stream)]
        waiting = asyncio.create_task(anext(stream))
        await asyncio.sleep(0.3)
        busy_shop.clock.at += timedelta(minutes=1)
        busy_shop.update("cccc", UpdateStateChanged(UpdateState.COMPLETED))
        return [*texts, await waiting, await anext(stream)]

    _, created, completed = asyncio.run(asyncio.wait_for(scenario(), 60))

    numbers = [row["sequence"]["data_plane_id"]["seq_no"] for row in pipeline.events().events(newest=2)]
    assert created == f"id: {numbers[0]}\n\n"
    assert parsed(completed) == (numbers[1], "update is COMPLETED")


def test_streams_send_a_heartbeat_and_end_when_the_server_stops(busy_shop):
    stopping = []

    async def scenario():
        live = LiveEvents(pipeline_of(busy_shop), lambda: bool(stopping), poll_s=0.01, heartbeat_s=0.02)
        texts = []
        async for text in live.listen(None):
            texts.append(text)
            if len(texts) == 3:
                stopping.append(True)
        return texts, live

    texts, live = asyncio.run(asyncio.wait_for(scenario(), 60))

    assert texts[1:3] == [": no event\n\n", ": no event\n\n"]
    assert not live._clients


def test_a_browser_that_does_not_read_is_sent_away(busy_shop, monkeypatch):
    monkeypatch.setattr("headrace.serve.live_events._MOST_WAITING", 1)

    async def scenario():
        live = LiveEvents(pipeline_of(busy_shop), lambda: False, poll_s=0.01)
        stream = live.listen(None)
        await anext(stream)
        waiting = asyncio.create_task(anext(stream, "the end"))
        await asyncio.sleep(0.3)
        # Two events at once are more than it may have waiting.
        busy_shop.update("cccc", UpdateStateChanged(UpdateState.COMPLETED))
        return await waiting, live

    found, live = asyncio.run(asyncio.wait_for(scenario(), 60))

    # It ends, instead of growing, and the browser comes back with the number of the last event.
    assert (found, live._clients) == ("the end", set())


def test_events_are_a_list_for_programs(browser):
    rows = browser.call("/api/v1/pipelines/shop/events").json
    after = browser.call(f"/api/v1/pipelines/shop/events?after={rows[-2]['sequence']}").json

    assert [row["message"] for row in after] == [rows[-1]["message"]]
    assert {"sequence", "timestamp", "event_type", "level", "message", "update_id", "flow", "dataset"} == set(rows[0])
