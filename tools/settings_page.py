"""The reference page of the settings, made from the table of keys."""

from __future__ import annotations

from collections.abc import Callable

from headrace.model.pipeline_keys import PIPELINE_KEYS
from headrace.settings.keys import KEYS, Key, Treatment

_INTRODUCTION = """\
# Settings

A project's settings are in `pipeline.yml` (or `pipeline.yaml`, `pipeline.json`), otherwise in `spark-pipeline.yml` (or
`spark-pipeline.yaml`). The file is looked for in the working directory and then in each folder above it.

- Every key is in one of three lists: used, accepted without effect, refused. A key that is in none of them is an error.
- Values mean what YAML 1.2 says: only `true` and `false` are booleans. A value of null is the same as no value.
- Texts below `configuration` and `spark_conf` may be written as numbers or booleans; they become texts.
- In JSON, `//` comments and a comma before a closing bracket are allowed.
- `schema`, `target` and `database` are one setting; two of them with different values are an error.
- `${secret:scope/key}`, `{{secrets/scope/key}}` and `${env:NAME}` in `configuration` and `spark_conf` are replaced when
  an update starts, and their values are never printed.
- A profile is chosen with `--profile`, else `HEADRACE_PROFILE`, else the setting `profile`. A key marked with * may
  also stand in a profile.
- Keys that begin with `pipelines.` are in [a table of their own](#keys-that-begin-with-pipelines); others are refused.
- In the tables, `[]` stands for each item of a list and `*` between dots for any name.
"""


def settings_reference() -> str:
    """docs/reference/settings.md as it must be."""
    used = _table(("key", "type", "default", "what it is"), Treatment.USED, _used_row)
    accepted = _table(("key", "type", "what it is", "why it has no effect"), Treatment.ACCEPTED, _accepted_row)
    refused = _table(("key", "type", "what it is", "why it is refused", "instead"), Treatment.REFUSED, _refused_row)
    sections = (
        _INTRODUCTION,
        "## Used\n",
        used,
        "## Accepted without effect\n",
        "Each of them that a file holds is mentioned once in every update.\n",
        accepted,
        "## Refused\n",
        "A refused key may stand with a value that asks for nothing: null, `false`, or empty.\n",
        refused,
        "## Keys that begin with pipelines.\n",
        "Case does not matter. A key that is not here, or stands in another place, is an error.\n",
        _pipeline_keys(),
    )
    return "\n".join(sections)


def _pipeline_keys() -> str:
    rows = [("key", "where", "without effect because"), ("---",) * 3]
    rows += [
        (f"`{key.name}`", "; ".join(place.value for place in key.places), key.without_effect or "")
        for key in PIPELINE_KEYS
    ]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


def _used_row(key: Key) -> tuple[str, ...]:
    return (_name(key), key.type.value, key.default, key.about)


def _accepted_row(key: Key) -> tuple[str, ...]:
    return (_name(key), key.type.value, key.about, _sentence(key.reason))


def _refused_row(key: Key) -> tuple[str, ...]:
    return (_name(key), key.type.value, key.about, _sentence(key.reason), key.instead)


def _name(key: Key) -> str:
    return f"`{key.path}`{' *' if key.in_profile else ''}"


def _sentence(reason: str) -> str:
    return f"{reason[0].upper()}{reason[1:]}."


def _table(heads: tuple[str, ...], treatment: Treatment, row: Callable[[Key], tuple[str, ...]]) -> str:
    rows: list[tuple[str, ...]] = [heads, ("---",) * len(heads)]
    rows.extend(row(key) for key in KEYS if key.treatment is treatment)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)
