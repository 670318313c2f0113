"""Results as JSON, merged with those of earlier calls, and as a Markdown page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from campaign.kills import Verdict
from campaign.places import Moment

_HEAD = """\
# The campaign

The campaign injects faults into real updates: it kills processes, sends them signals, suspends them, starts two at
once, and maintains the storage meanwhile. Then the next update finishes the work. A point passes if all of these hold:

- every table, quarantine table and count equals that of an uninterrupted project;
- a further `plan` is empty;
- no process is left over.

In points that ran after 2026-11-27, the status, the metrics and SQL must also say `LOST` after a kill, and how the next
update ended after it.

With `--store s3`, the storages are in a bucket of a local gateway of S3; otherwise they are on a disk.

Maintenance beside a continuous update prints the files and bytes before and after it. No flow may fail, or be retried.

To repeat one point, add `--point` and its number to the command of its section. `make campaign ARGS=--publish` writes
this page.
"""


def entry(
    section: str, master: str, seed: int, verdicts: Sequence[Mapping[str, Any]], at: str, points: int | None = None
) -> dict[str, Any]:
    """The results of one section on one master; *points* is set if one verdict stands for several."""
    return {
        "section": section,
        "master": master,
        "seed": seed,
        "at": at,
        "points": points or len(verdicts),
        "struck": points or sum(verdict["struck"] for verdict in verdicts),
        "failed": sum(bool(verdict["faults"]) for verdict in verdicts),
        "seconds": round(sum(verdict["seconds"] for verdict in verdicts)),
        "verdicts": [dict(verdict) for verdict in verdicts],
    }


class VerdictStore:
    """The verdicts of a section, each stored at once, so that a later call can resume.

    Args:
        file: one verdict per line.
        resume: whether the stored verdicts count.
    """

    def __init__(self, file: Path, *, resume: bool) -> None:
        self._file = file
        if not resume:
            file.unlink(missing_ok=True)
        lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
        self._found: list[dict[str, Any]] = [json.loads(line) for line in lines]

    @property
    def numbers(self) -> frozenset[int]:
        """The numbers of the points with a verdict."""
        return frozenset(verdict["number"] for verdict in self._found)

    @property
    def verdicts(self) -> list[dict[str, Any]]:
        """All verdicts, by number."""
        return sorted(self._found, key=lambda verdict: int(verdict["number"]))

    def add(self, verdict: Verdict) -> None:
        """Store a verdict."""
        document = json.loads(json.dumps(verdict.to_json()))
        self._found.append(document)
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(document) + "\n")


def stored(file: Path, new: Mapping[str, Any], machine: Mapping[str, Any]) -> dict[str, Any]:
    """Store a section's results and return those of all sections; results of fewer points replace nothing."""
    try:
        results: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        results = {"entries": {}}
    results["machine"] = dict(machine)
    key = f"{new['section']} {new['master']}"
    if results["entries"].get(key, {"points": 0})["points"] <= new["points"]:
        results["entries"][key] = dict(new)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return results


def page(results: Mapping[str, Any]) -> str:
    """The results as a page of the docs."""
    entries = [results["entries"][key] for key in sorted(results["entries"])]
    lines = [_HEAD, _machine(results["machine"]), ""]
    heads = ("section", "master", "seed", "points", "hit in time", "failed", "minutes", "on")
    rows: list[tuple[object, ...]] = [
        (e["section"], f"`{e['master']}`", e["seed"], e["points"], e["struck"], e["failed"], _minutes(e), e["at"][:10])
        for e in entries
    ]
    lines += _table(heads, rows)
    for e in entries:
        again = command(e["section"], e["master"], e["seed"])
        lines += ["", f"## {e['section']} on {e['master']}", "", f"    {again}", ""]
        if any(verdict["shot"] for verdict in e["verdicts"]):
            lines += [*_cells(e["verdicts"]), ""]
        rows = [(v["number"], v["what"], v["code"], v["seconds"], _verdict_text(v)) for v in e["verdicts"]]
        lines += _table(("point", "who and where", "exit code", "seconds", "verdict"), rows)
    return "\n".join(lines) + "\n"


def command(section: str, master: str, seed: int, point: int | None = None) -> str:
    """The command that repeats a section, or one point."""
    one = "" if point is None else f" --point {point}"
    return f"make campaign ARGS='--only {section} --seed {seed} --master {master}{one}'"


def _minutes(found: Mapping[str, Any]) -> str:
    return f"{found['seconds'] / 60:.1f}"


def _verdict_text(verdict: Mapping[str, Any]) -> str:
    if verdict["faults"]:
        return f"FAILED: {verdict['faults'][0].splitlines()[0]}"
    return "passed" if verdict["struck"] else "passed, was over before"


def _machine(machine: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in machine.items())


def _cells(verdicts: Iterable[Mapping[str, Any]]) -> list[str]:
    """A table of the number of hits, by commit and moment."""
    hits = Counter((v["shot"]["commit"], v["shot"]["moment"]) for v in verdicts if v["struck"])
    moments = [moment.value for moment in Moment]
    rows = [(commit, *(hits[commit, moment] or "" for moment in moments)) for commit in sorted({c for c, _ in hits})]
    return _table(("hits", *moments), rows)


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    lines = [" | ".join(heads), " | ".join("---" for _ in heads)]
    lines += [" | ".join(str(cell).replace("|", "\\|") for cell in row) for row in rows]
    return [f"| {line} |" for line in lines]
