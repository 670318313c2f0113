"""Requirements of every kind of source, every kind of output and every class of latency."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import yaml

from headrace.assistant.design.design import make_design
from headrace.assistant.design.parse import parse_requirements
from headrace.assistant.design.requirement_keys import OUTPUT_KINDS, SOURCE_KINDS
from headrace.errors import Problems

LATENCIES = ("1 day", "15 minutes", "10 seconds", "200 ms")
COLUMNS = {
    "event_id": "STRING",
    "user_id": "STRING",
    "event_type": "STRING",
    "event_time": "TIMESTAMP",
    "amount": "DECIMAL(10,2)",
}
USERS = {
    "name": "users",
    "kind": "files",
    "schema": {"user_id": "STRING", "user_name": "STRING", "country": "STRING"},
    "keys": ["user_id"],
    "events_per_s": 0.01,
}
PAYMENTS = {
    "name": "payments",
    "kind": "files",
    "schema": {"payment_id": "STRING", "user_id": "STRING", "paid_at": "TIMESTAMP", "amount": "DECIMAL(10,2)"},
    "event_time": "paid_at",
    "keys": ["payment_id"],
    "events_per_s": 50,
}
# The parameters of each kind of output, and the sources that it needs besides the one of the events.
OUTPUTS = {
    "bronze": ({}, []),
    "clean": ({"rules": {"amount is possible": "amount >= 5", "type is known": "event_type IN ('click', 'view')"}}, []),
    "dedup": ({"keys": ["event_id"]}, []),
    "enrich": ({"with": "users", "on": ["user_id"]}, [USERS]),
    "windows": ({"keys": ["user_id"], "size": "5 minutes", "aggregates": {"total": "sum(amount)"}}, []),
    "sessions": ({"keys": ["user_id"], "gap": "2 minutes", "aggregates": {"spent": "sum(amount)"}}, []),
    "join": ({"with": "payments", "on": ["user_id"], "within": "10 minutes"}, [PAYMENTS]),
    "scd1": ({"keys": ["user_id"]}, []),
    "scd2": ({"keys": ["user_id"]}, []),
    "sink": ({"format": "kafka", "where": "amount >= 5"}, []),
}
# The environment variable with the URL that alerts are posted to.
ALERTS_URL = "ALERTS_URL"


@dataclass(frozen=True)
class Pair:
    """A source, an output and a latency."""

    source: str
    output: str
    latency: str

    def __str__(self) -> str:
        return f"{self.source}-{self.output}-{self.latency.replace(' ', '')}"


PAIRS = tuple(Pair(*values) for values in product(SOURCE_KINDS, OUTPUT_KINDS, LATENCIES))


def requirements_text(source, outputs, latency, record_format=None, **more):
    """A requirements file with one source of events and some outputs."""
    sources = {"events": {"name": "events", "kind": source, "events_per_s": 200, "duplicates": "yes"}}
    if source not in ("rate", "synthetic"):
        sources["events"] |= {"schema": COLUMNS, "event_time": "event_time", "keys": ["event_id"]}
    if record_format is not None:
        sources["events"]["format"] = record_format
    declared = []
    for kind in outputs:
        given, needed = OUTPUTS[kind]
        declared.append({"name": f"events_{kind}", "kind": kind, "from": "events", **_known(source, kind, given)})
        sources |= {one["name"]: _renamed_source(one, source) for one in needed}
    if source == "cdc":
        sources["events"] |= {"keys": ["user_id"]}
    document = {
        "name": "matrix",
        "sources": list(sources.values()),
        "outputs": declared,
        "latency": latency,
        "lateness": "4 minutes",
        "state": {"memory": "1 GiB"},
        "guarantee": "at-least-once",
        "on_error": "quarantine",
        "history": "none",
        "alerts": f"${{env:{ALERTS_URL}}}",
        **more,
    }
    return yaml.safe_dump(document, sort_keys=False)


def _known(source, kind, given):
    """The parameters with the columns that a source of fixed columns has."""
    if source == "synthetic":
        text = yaml.safe_dump(given).replace("user_id", "key").replace("amount", "value")
        return yaml.safe_load(text)
    if source == "rate":
        text = yaml.safe_dump(given).replace("user_id", "value").replace("amount", "value").replace("event_id", "value")
        return yaml.safe_load(text.replace("event_type IN ('click', 'view')", "value > 0"))
    if source == "cdc" and kind == "sink":
        return {name: value for name, value in given.items() if name != "where"}
    return given


def _renamed_source(other, source):
    name = {"synthetic": "key", "rate": "value"}.get(source)
    if name is None:
        return other
    kind = "STRING" if source == "synthetic" else "BIGINT"
    schema = {name if column == "user_id" else column: type_ for column, type_ in other["schema"].items()}
    schema[name] = kind
    return {**other, "schema": schema, "keys": [name if key == "user_id" else key for key in other["keys"]]}


def parsed(text):
    """The requirements in a text."""
    return parse_requirements(text, "requirements.yml", lambda _: ())


def design_of(pair):
    """The design of a pair, or the problems that refuse it."""
    try:
        return make_design(parsed(requirements_text(pair.source, [pair.output], pair.latency)))
    except Problems as problems:
        return problems


def bundles():
    """Designs that cover all pairs that are not refused: each source and latency with all of its outputs."""
    found = {}
    for pair in PAIRS:
        if not isinstance(design_of(pair), Problems):
            found.setdefault((pair.source, pair.latency), []).append(pair.output)
    return {
        f"{source}-{latency.replace(' ', '')}": (source, made, latency) for (source, latency), made in found.items()
    }


# Designs that cover eight pairs in few updates: source, outputs and latency.
EIGHT = {
    "kafka": ("kafka", ("bronze", "dedup", "windows", "sink"), "10 seconds"),
    "files": ("files", ("enrich", "join"), "1 day"),
    "cdc": ("cdc", ("scd1", "scd2"), "15 minutes"),
}


def written_design(made, folder):
    """The project of a design in a folder, as the command line writes it."""
    for path, text in made.files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder
