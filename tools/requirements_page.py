"""The reference page of requirements files, made from the table of keys."""

from __future__ import annotations

from headrace.assistant.design.requirement_keys import KEYS, PARAMETERS
from headrace.settings.key import Key

_INTRODUCTION = """\
# Requirements files

`headrace design FILE` reads what a pipeline must do from a YAML file. [How to design a
pipeline](../how-to/design-a-pipeline.md) shows the way from the file to a project. The shortest file:

```yaml
name: clicks
sources:
  - name: clicks
    kind: kafka
    schema: {event_id: STRING, clicked_at: TIMESTAMP}
outputs:
  - {name: clicks_bronze, kind: bronze}
```

- A key that is missing is a question: `headrace design --questions FILE` lists it with its default,
  and `--sample PATH` proposes answers from files of records.
- An unknown key is an error, which suggests the nearest one. All problems are reported together, with their lines.
- Values follow YAML 1.2, as in [settings](settings.md). `${env:NAME}` and `${secret:scope/key}` are replaced when the
  pipeline runs, and never printed. Secrets as plain text are refused.
- Durations are a number and a unit, such as `200 ms`, `10 minutes` or `1 day`. Sizes are like `512 MiB` or `2 GiB`; `MB`
  and `MiB` are the same.
- Editors complete and check the file with its JSON schema: run `headrace schema --requirements --file
  requirements.schema.json`, and begin the file with the line that the command prints.
- In the tables, `[]` stands for each item of a list.
"""


def requirements_reference() -> str:
    """The expected text of docs/reference/requirements.md."""
    groups = {
        "The pipeline": [key for key in KEYS if not key.path.startswith(("sources[]", "outputs[]"))],
        "Sources": [key for key in KEYS if key.path.startswith("sources[]")],
        "Outputs": [key for key in KEYS if key.path.startswith("outputs[]")],
    }
    sections = [_INTRODUCTION]
    for title, keys in groups.items():
        sections.append("\n".join([f"## {title}", "", *_table(keys)]) + "\n")
    sections.append(_PARAMETERS + "\n".join(_parameter_rows()) + "\n")
    return "\n".join(sections)


_PARAMETERS = """\
## Keys of each kind of output

All have `name`, `kind`, `from`, `comment` and `latency`.

| kind | other keys |
| --- | --- |
"""


def _table(keys: list[Key]) -> list[str]:
    rows = [f"| `{key.path}` | {_values(key)} | {key.default} | {_escaped(key.about)} |" for key in keys]
    return ["| key | value | default | what it is |", "| --- | --- | --- | --- |", *rows]


def _values(key: Key) -> str:
    return ", ".join(f"`{choice}`" for choice in key.choices) or key.type.value


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def _parameter_rows() -> list[str]:
    common = frozenset.intersection(*PARAMETERS.values())
    order = [key.leaf for key in KEYS if key.path.startswith("outputs[]")]
    return [
        f"| `{kind}` | {', '.join(f'`{name}`' for name in order if name in known - common)} |"
        for kind, known in PARAMETERS.items()
    ]
