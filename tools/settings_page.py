"""The reference page of the settings, made from the table of keys."""

from __future__ import annotations

from collections.abc import Callable

from headrace.model.pipeline_keys import PIPELINE_KEYS
from headrace.options.option import Treatment
from headrace.settings.key import Key
from headrace.settings.keys import KEYS

_INTRODUCTION = """\
# Settings

The settings of a project are in `pipeline.yml`. The shortest file that works:

```yaml
name: flights
```

A file with a development profile:

```yaml
name: flights
schema: ops
connectors: [kafka]
configuration:
  headrace.failing_rows: quarantine
profiles:
  dev:
    development: true
    schema_prefix: dev_
```

Headrace looks in the working directory first, then in each parent directory. In each of them, it looks for `pipeline.yml`,
`pipeline.yaml` or `pipeline.json`, then for `spark-pipeline.yml` or `spark-pipeline.yaml`.

- Editors complete and check the file with [its JSON schema](pipeline.schema.json), which `headrace schema` prints. [How to set
  it up](../how-to/start-a-project.md#edit-the-settings-in-an-editor).
- Every key is used, accepted without effect, or refused. The tables on this page list all of them. An unknown key is an
  error.
- Values follow YAML 1.2: only `true` and `false` are booleans. A null value is the same as no value.
- Under `configuration` and `spark_conf`, all values are strings. You can write them as numbers or booleans.
- JSON files can have `//` comments and a comma before a closing bracket.
- `schema`, `target` and `database` are the same setting. If two of them have different values, that is an error.
- In `configuration`, `spark_conf`, the channels of `alerts` and the transports of `lineage`, `${secret:scope/key}`,
  `{{secrets/scope/key}}` and `${env:NAME}` are replaced when they are needed. Their values are never printed.
- `--profile` selects a profile. Without it, the variable `HEADRACE_PROFILE` applies, and then the setting `profile`. A
  profile can contain the keys marked with *.
- Keys that begin with `pipelines.` have [their own table](#keys-that-begin-with-pipelines). Any other such key is an error.
- In the tables, `[]` stands for each item of a list, and `*` between dots for any name.
"""


_CONFIGURATION = """\
## Configuration

Under `configuration`, these keys set the defaults of all flows and tables. A flow or table that sets its own value keeps it.

| key | default | what it is |
| --- | --- | --- |
| `pipelines.maxFlowRetryAttempts` | | the vendor's name for `max_flow_retries`, which overrides it |
| `pipelines.trigger.interval` | by dataset | how often flows of a continuous update [check for new input](../how-to/run-continuously.md#set-the-trigger) |
| `pipelines.cdc.tombstoneGCThresholdInSeconds` | `172800` | how long change data capture retains tombstones and other change events |
| `pipelines.applyChanges.tombstoneGCFrequencyInSeconds` | `3600` | how often a continuous update removes older ones |
| `headrace.cdc.on_tie` | `resolve` | what happens to change events with the same key and sequence: `resolve`, `fail` or `quarantine` |
| `headrace.failing_rows` | `fail` | what happens to [rows that fail](../how-to/failed-records.md): `fail` or `quarantine` |
| `headrace.failing_rows.share` | `0.01` | the share of a flow's rows that may be quarantined before the flow fails |
| `headrace.failing_batches` | `fail` | what happens to batches that fail as a whole: `fail` or `quarantine` |
| `headrace.small_batches.rows` | `10000` | batches of at most so many rows are [committed without Spark's writer](../adr/0029-small-batches-are-committed-without-spark.md), if they are small in bytes too and the table allows it; `0` for no batch |
| `headrace.static_inputs` | `newest` | which rows streams are [joined with](../how-to/time-and-state.md#join-a-stream-with-tables-and-files): `newest`, `start`, or an interval at which folders of files are listed again |
| `headrace.views.auto_refresh` | `full` | what the [refresh policy](../concepts/materialized-views.md#policies) `auto` does: `full`, or `cheaper`, by an estimate |
"""


def settings_reference() -> str:
    """The expected text of docs/reference/settings.md."""
    used = _table(("key", "type", "default", "what it is"), Treatment.USED, _used_row)
    accepted = _table(("key", "type", "what it is", "why it has no effect"), Treatment.ACCEPTED, _accepted_row)
    refused = _table(("key", "type", "what it is", "why it is refused", "instead"), Treatment.REFUSED, _refused_row)
    sections = (
        _INTRODUCTION,
        "## Used\n",
        used,
        _CONFIGURATION,
        "## Accepted without effect\n",
        "If the file contains one of these keys, every update reports it once.\n",
        accepted,
        "## Refused\n",
        "A refused key is allowed if its value is null, `false` or empty.\n",
        refused,
        "## Keys that begin with pipelines.\n",
        "These keys are case-insensitive. An unknown key, or a key in another place, is an error.\n",
        _pipeline_keys(),
    )
    return "\n".join(sections)


def _pipeline_keys() -> str:
    rows = [("key", "where", "why it has no effect"), ("---",) * 3]
    rows += [
        (f"`{key.name}`", "; ".join(scope.value for scope in key.scopes), key.without_effect or "")
        for key in PIPELINE_KEYS
    ]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


def _used_row(key: Key) -> tuple[str, ...]:
    return (_name(key), key.type.value, key.default, key.about)


def _accepted_row(key: Key) -> tuple[str, ...]:
    return (_name(key), key.type.value, key.about, _sentence(key.reason))


def _refused_row(key: Key) -> tuple[str, ...]:
    return (_name(key), key.type.value, key.about, _sentence(key.reason), key.fix)


def _name(key: Key) -> str:
    return f"`{key.path}`{' *' if key.in_profile else ''}"


def _sentence(reason: str) -> str:
    return f"{reason[0].upper()}{reason[1:]}."


def _table(heads: tuple[str, ...], treatment: Treatment, row: Callable[[Key], tuple[str, ...]]) -> str:
    rows: list[tuple[str, ...]] = [heads, ("---",) * len(heads)]
    rows.extend(row(key) for key in KEYS if key.treatment is treatment)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)
