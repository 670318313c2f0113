"""Requirements in a few lines."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from tests.design_matrix import parsed

EXAMPLES = Path(__file__).parents[4] / "examples" / "design"
EVENTS = {
    "name": "events",
    "kind": "kafka",
    "schema": {"event_id": "STRING", "user_id": "STRING", "at": "TIMESTAMP", "amount": "DOUBLE"},
    "event_time": "at",
    "keys": ["event_id"],
    "events_per_s": 100,
}
ANSWERS = {
    "latency": "10 seconds",
    "lateness": "10 minutes",
    "state": {"memory": "1 GiB"},
    "guarantee": "exactly-once",
    "on_error": "quarantine",
    "history": "none",
}


@pytest.fixture
def requirements():
    """Parsed requirements: one source, with other keys as given, and outputs; None leaves an answer open."""

    def make(*outputs, source=None, sources=(), **answers):
        one = {**EVENTS, **(source or {})}
        given = {**ANSWERS, **answers}
        document = {
            "name": "shop",
            "sources": [{key: value for key, value in one.items() if value is not None}, *sources],
            "outputs": list(outputs) or [{"name": "raw_events", "kind": "bronze"}],
            **{key: value for key, value in given.items() if value is not None},
        }
        return parsed(yaml.safe_dump(document, sort_keys=False))

    return make


@pytest.fixture
def example():
    """The text of an example, and it without one line."""

    def text(name, without=None):
        lines = (EXAMPLES / f"{name}.yml").read_text(encoding="utf-8").splitlines()
        kept = [line for line in lines if without is None or not line.strip().startswith(without)]
        assert without is None or len(kept) < len(lines)
        return "\n".join(kept) + "\n"

    return text
