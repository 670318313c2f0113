"""The page of the docs with the newest results of each scenario."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_HEAD = """\
# Benchmarks

Each scenario compares Headrace with the same work in plain PySpark and in Spark's own pipelines, in one run on one
machine. Each step runs in its own process. The first contestant runs once more at the end. Times count only if every
contestant has written the expected rows. [Speed](speed.md) explains the results, and where Headrace is slower.

The figures are seconds unless the measure has another unit. Compare them only within a table: machines differ.
*Spread* is the difference between the slowest and the fastest run, divided by the median. The column *by ...* is the
contestant's median divided by that of the base.

`make bench ARGS="--publish"` writes this page. Each scenario shows the command that repeats it.
"""
_SECTION = re.compile(r"^## (\w+)\n(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)


def page(scenarios: Mapping[str, Mapping[str, Any]], before: str = "") -> str:
    """The page as Markdown.

    Args:
        scenarios: as stored by the runner, by name.
        before: the current page; its sections on other scenarios, measured elsewhere, stay.
    """
    sections = {name: f"## {name}\n{text.rstrip()}\n" for name, text in re.findall(_SECTION, before)}
    sections |= {name: _section(name, found) for name, found in scenarios.items()}
    return "\n".join((_HEAD, *(sections[name] for name in sorted(sections))))


def _section(name: str, found: Mapping[str, Any]) -> str:
    lines = [f"## {name}", "", f"{found['about']}; {found['rows']:,} rows, {_rounds(found)}.", ""]
    lines += [f'    make bench ARGS="--only {name} --repeats {found["repeats"]}"', ""]
    rows = [
        (line["measure"], line["contestant"], line["median_s"], f"{line['spread']:.0%}", line["ratio"], _runs(line))
        for line in found["lines"]
    ]
    lines += _table(("measure", "contestant", "median", "spread", f"by {found['base']}", "runs"), rows)
    lines += ["", f"{found['at'][:10]}; {_machine(found['machine'])}.", ""]
    return "\n".join(lines)


def _rounds(found: Mapping[str, Any]) -> str:
    return f"{found['repeats']} round{'' if found['repeats'] == 1 else 's'}"


def _runs(line: Mapping[str, Any]) -> str:
    runs = line["runs_s"]
    return ", ".join(map(str, runs)) if len(runs) <= 5 else f"{len(runs)} runs"


def _machine(machine: Mapping[str, Any]) -> str:
    return ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in machine.items())


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    lines = [" | ".join(heads), " | ".join("---" for _ in heads)]
    lines += [" | ".join("" if cell is None else str(cell) for cell in row) for row in rows]
    return [f"| {line} |" for line in lines]
