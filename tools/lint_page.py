"""The reference page of the rules, made from the rules themselves."""

from __future__ import annotations

from headrace.lint.catalog import RULES
from headrace.lint.rules import Rule

_INTRODUCTION = """\
# What `headrace lint` finds

    headrace lint [FILES] [--format text|json|sarif] [--select RULES] [--ignore RULES]

It reads Python, SQL and notebooks, and runs nothing. An **error** cannot work on open-source Spark; a **warning** is a
trap: it runs, and does something else than it seems to. Each comes with the reason and the replacement. FILES are files
or folders; inside a project they are its transformations where none is named. It exits with 0 when nothing was found, 1
with findings, and 2 when a file cannot be read.

A rule speaks where the text shows enough to be sure, and is quiet otherwise: what a name stands for is followed through
assignments, chains, functions of the same file and the cells of a notebook, not through other files. A name that is
bound nowhere is what notebooks use it for (`spark`, `F`, `streaming_df`). Of a notebook with a cell that is no Python
the others are looked at. SQL is looked at in `.sql` files, in cells and in strings of `spark.sql`, `expr`, `filter`,
`where` and `selectExpr`. Secrets in the text are shown as asterisks. The examples of all rules but the last are run by
the tests, the first to see it fail or go wrong, the second to see it work.

## Keep a rule quiet

A comment on the line of the finding, or on the first line of its statement:

```python
names = files.select(F.input_file_name())  # headrace: ignore[input-file-name]
```

Several ids with commas, in brackets right behind the word; without brackets, every rule. In SQL the comment begins with
`--`, also within a string that is handed to Spark, where a comment behind the closing quotes counts too. For a whole
file, on any line of it: `# headrace: ignore-file[input-file-name]`. A comment that keeps nothing quiet, or is written
another way, is itself found ([unused-suppression](#unused-suppression)). `--select A,B` looks for these rules alone,
`--ignore A,B` for all others. `headrace explain RULE` prints what stands here.

## In an editor and in CI

`--format sarif` writes SARIF 2.1.0, with paths relative to the working directory, for code hosts and editors; `--format
json` writes one document with `findings`, each with `rule`, `severity`, `message`, `why`, `instead`, `file`, `line`,
`column`, `end_line`, `end_column`, and `cell` in notebooks.
"""


def lint_reference() -> str:
    """docs/reference/lint.md as it must be."""
    rows = [f"| [{rule.id}](#{rule.id}) | {rule.severity.value} | {rule.title} |\n" for rule in RULES]
    table = f"| rule | severity | what is found |\n| --- | --- | --- |\n{''.join(rows)}"
    return "\n".join((_INTRODUCTION, "## The rules\n", table, *(_section(rule) for rule in RULES)))


def _section(rule: Rule) -> str:
    return (
        f"## {rule.id}\n\n{rule.title}. **{rule.severity.value.capitalize()}.** {rule.why}\n\n"
        f"**Instead:** `{rule.instead}`\n\n**Quiet:** {rule.quiet}\n\n"
        f"Fails:\n\n```python\n{rule.failing}\n```\n\nWorks:\n\n```python\n{rule.passing}\n```\n"
    )
