"""The reference page of the lint rules, generated from the rules."""

from __future__ import annotations

from headrace.lint.catalog import RULES
from headrace.lint.rules import Rule

_INTRODUCTION = """\
# What `headrace lint` finds

Lint finds code that cannot work on open-source Spark, and code that does not do what it seems to do. It reads Python,
SQL and notebooks, and runs nothing:

    headrace lint
    headrace lint transformations/orders.py notebooks/

    headrace lint [FILES] [--format text|json|sarif] [--select RULES] [--ignore RULES] [--fix] [--diff]

FILES are files or folders. Inside a project, the default is its transformations. Each finding has a reason and a
replacement. `headrace explain RULE` prints the text of a rule from this page.

| severity | meaning |
| --- | --- |
| **error** | It cannot work on open-source Spark |
| **warning** | It runs, but does not do what it seems to do |

| exit code | meaning |
| --- | --- |
| 0 | No findings |
| 1 | Findings |
| 2 | A file cannot be read |

| option | what it does |
| --- | --- |
| `--select A,B` | Checks only these rules |
| `--ignore A,B` | Checks all other rules |
| `--format sarif` | Writes SARIF 2.1.0 for code hosts and editors, with paths relative to the working directory |
| `--format json` | Writes one document with `findings`. Each has `rule`, `severity`, `message`, `why`, `instead`, `fixable`, `file`, `line`, `column`, `end_line`, `end_column`, and in notebooks `cell` |
| `--fix` | Fixes findings whose fix is certain, and prints the others |
| `--diff` | Prints what `--fix` would change, as a unified diff, and writes nothing. Exits with 1 if there is something to fix |

## Fix findings

`headrace lint --diff` shows the fixes, and `headrace lint --fix` applies them. A fix changes only the text that it must:
formatting, comments, line ends and the encoding stay. Each rule below says which of its findings are fixed. The others need
a decision of yours, such as the delay of a watermark.

- A fix is applied only if the file can be read afterwards, and if it violates no other rule.
- A file that is not valid Python, or a notebook with such a cell, is not changed.
- In a notebook, only the source of the cells changes. If its JSON has a layout that cannot be kept, it is not changed.
- The diff masks secrets, so apply fixes with `--fix` and not with the diff.

## What lint can see

- Lint reports a finding only if the code leaves no doubt.
- It follows a name through assignments, method chains, functions of the same file and the cells of a notebook, but not into
  other files.
- A name that is not assigned anywhere has the meaning that it usually has in notebooks (`spark`, `F`, `streaming_df`).
- If a cell of a notebook is not valid Python, lint still checks the other cells.
- It checks SQL in `.sql` files, in cells, and in strings passed to `spark.sql`, `expr`, `filter`, `where` and `selectExpr`.
- It replaces secrets in the text with asterisks.

Tests run the examples of all rules except the last: the first example must fail or give wrong results, the second must
work.

## Suppress a rule

Add a comment to the line of the finding, or to the first line of its statement:

```python
names = files.select(F.input_file_name())  # headrace: ignore[input-file-name]
```

| comment | what it suppresses |
| --- | --- |
| `# headrace: ignore[rule-a,rule-b]` | These rules. Do not put a space before the bracket |
| `# headrace: ignore` | All rules |
| `# headrace: ignore-file[rule-a]` | This rule in the whole file, on any line |

In SQL, the comment begins with `--`. This also works inside a SQL string in Python. There, a comment after the closing
quotes works too. A comment that suppresses nothing, or is misspelled, is a finding
([unused-suppression](#unused-suppression)).
"""


def lint_reference() -> str:
    """The expected text of docs/reference/lint.md."""
    rows = [f"| [{rule.id}](#{rule.id}) | {rule.severity.value} | {_mark(rule)} | {rule.title} |\n" for rule in RULES]
    table = f"| rule | severity | --fix | what it finds |\n| --- | --- | --- | --- |\n{''.join(rows)}"
    return "\n".join((_INTRODUCTION, "## Rules\n", table, *(_section(rule) for rule in RULES)))


def _mark(rule: Rule) -> str:
    return "yes" if rule.fixable else ""


def _section(rule: Rule) -> str:
    fixed = f"**Fixed by `--fix`:** {rule.fixable}\n\n" if rule.fixable else ""
    return (
        f"## {rule.id}\n\n{rule.title}. **{rule.severity.value.capitalize()}.** {rule.why}\n\n"
        f"**Fix:** `{rule.fix}`\n\n{fixed}**Exceptions:** {rule.exceptions}\n\n"
        f"Fails:\n\n```python\n{rule.failing}\n```\n\nWorks:\n\n```python\n{rule.passing}\n```\n"
    )
