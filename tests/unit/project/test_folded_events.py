"""The metrics that a server keeps in memory are those of the log."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.unit.serve.conftest import batch, definitions, new_shop, state

from headrace.events.types import UpdateStateChanged
from headrace.metrics import catalogue
from headrace.model.outcome import FlowState, UpdateState
from headrace.project.inspection.event_metrics import FoldedEvents
from headrace.settings.load import load_settings
from headrace.settings.storage import MonitoringFile

END = UpdateStateChanged(UpdateState.COMPLETED)


@pytest.fixture
def shop(tmp_path):
    return new_shop(tmp_path)


def read_from_the_beginning(settings):
    Path(settings.layout.monitoring(MonitoringFile.METRICS)).unlink(missing_ok=True)
    return FoldedEvents(settings).newest().to_json()


def test_metrics_that_are_kept_equal_those_that_are_read_from_the_beginning(shop):
    """Guards a log that grows, and one that was deleted and written again: its rows are others."""
    settings = load_settings(shop.root / "pipeline.yml", environ={})
    kept = FoldedEvents(settings)
    assert kept.newest().latest is None
    for update in ("u1", "u2"):
        shop.update(update, *definitions(), state("orders", FlowState.STARTING), batch(len(update)), END)
        assert kept.newest().to_json() == read_from_the_beginning(settings), update
    # Versions as before, of another log.
    shutil.rmtree(shop.events)
    for update in ("u3", "u4"):
        shop.update(update, *definitions(), batch(7), END)
        assert kept.newest().to_json() == read_from_the_beginning(settings), update


def test_what_a_reader_adds_to_the_metrics_is_its_own(shop):
    shop.update("u1", *definitions(), batch(0), END)
    kept = FoldedEvents(load_settings(shop.root / "pipeline.yml", environ={}))
    before = kept.newest().to_json()

    found = kept.newest()
    found.samples.set(catalogue.LEASE, 1)
    found.samples.drop(catalogue.FLOW_STATE)
    found.lose_flows()

    assert kept.newest().to_json() == before
