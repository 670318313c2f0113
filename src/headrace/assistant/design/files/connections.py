"""The options of sinks: given ones, and defaults for those without which nothing can be delivered."""

from __future__ import annotations

from headrace.assistant.design.blueprint import Dataset

_DEFAULTS = {
    "kafka": {"kafka.bootstrap.servers": "${{env:{NAME}_SERVERS}}", "topic": "{name}"},
    "jdbc": {"url": "${{secret:{name}/url}}", "dbtable": "{name}"},
    "http": {"url": "${{secret:{name}/url}}"},
}
_FILES = {"path": "${{env:{NAME}_PATH}}"}


def sink_options(sink: Dataset) -> dict[str, str]:
    """The options of a sink in the profile production."""
    if sink.output is None:
        raise ValueError(f"{sink.name} is no output")
    given = {name.casefold() for name in sink.output.options}
    defaults = _DEFAULTS.get(str(sink.output.format), _FILES)
    if "tablename" in given:
        defaults = {}
    found = {
        name: value.format(name=sink.name, NAME=sink.name.upper())
        for name, value in defaults.items()
        if name.casefold() not in given
    }
    if sink.output.format == "jdbc" and sink.output.keys and "mode" not in given:
        found |= {"mode": "upsert", "keys": ",".join(sink.output.keys)}
    return {**found, **sink.output.options}
