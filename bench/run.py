"""Compares Headrace with other implementations: `make bench`. Prints a table, and writes `.bench/results.json`.

With `--publish`, the results are also written to a page of the documentation.

Each step runs in its own process and folder. In each round, the first contestant runs once more at the end. Times count
only if every contestant has written the expected rows.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from page import page
from report import Line, Sample, lines_of, round_of, table
from scenario import BENCH, Contestant, Scenario, environment

RESULTS = BENCH.parent / ".bench"
PAGE = BENCH.parent / "docs" / "reference" / "benchmarks.md"
_PACKAGES = ("headrace", "pyspark", "deltalake")
_MEASURED = "measured "


class BenchError(Exception):
    """A contestant failed, or did not write the expected rows."""


def main(words: Sequence[str]) -> int:
    """Run the scenarios on the command line, and print their results."""
    known = sorted(file.stem for file in (BENCH / "scenarios").glob("[a-z]*.py"))
    parser = argparse.ArgumentParser(description="Compare Headrace with other implementations.")
    parser.add_argument("--only", metavar="A,B", help=f"only these scenarios, of {', '.join(known)}")
    parser.add_argument("--repeats", type=int, help="rounds for each scenario (default: the scenario's own, mostly 5)")
    parser.add_argument("--rows", type=int, help="rows of input instead of the scenario's own number")
    parser.add_argument("--contestants", metavar="A;B", help="only these contestants, such as '10 flows;100 flows'")
    parser.add_argument(
        "--publish", action="store_true", help=f"write the results into {PAGE.relative_to(BENCH.parent)}"
    )
    chosen = parser.parse_args(words)
    wanted = chosen.only.split(",") if chosen.only else known
    unknown = sorted(set(wanted) - set(known))
    if unknown or (chosen.repeats is not None and chosen.repeats < 1):
        parser.error(f"unknown scenario {', '.join(unknown)}" if unknown else "--repeats must be at least 1")
    for name in wanted:
        machine = _machine()
        scenario: Scenario = import_module(f"scenarios.{name}").SCENARIO
        if chosen.contestants:
            scenario = only(scenario, chosen.contestants.split(";"))
        found = run_scenario(name, scenario, chosen.rows or scenario.rows, chosen.repeats or scenario.repeats)
        at = datetime.now(UTC).isoformat()
        measured = {name: {"at": at, "machine": machine, **found}}
        _store(measured)
        if chosen.publish:
            before = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
            PAGE.write_text(page(measured, before), encoding="utf-8")
    print(f"\nstored in {RESULTS / 'results.json'}")
    return 0


def only(scenario: Scenario, names: Sequence[str]) -> Scenario:
    """The scenario with these contestants alone.

    Raises:
        BenchError: it has none of them.
    """
    chosen = tuple(one for one in scenario.contestants if one.name in names)
    if not chosen:
        raise BenchError(f"no contestant of {', '.join(one.name for one in scenario.contestants)} is chosen")
    return replace(scenario, contestants=chosen)


def run_scenario(name: str, scenario: Scenario, rows: int, repeats: int) -> dict[str, Any]:
    """Run every contestant's steps in every round, print a table, and return the results as they are stored."""
    print(f"\n{name}: {scenario.about}; {rows:,} rows, {repeats} rounds", flush=True)
    data = RESULTS / "data" / f"{name}-{rows}"
    scenario.make_data(data, rows)
    absent = {one.name: reason for one in scenario.contestants if (reason := one.absent())}
    present = {one.name: one for one in scenario.contestants if one.name not in absent}
    samples: list[Sample] = []
    for number in range(repeats):
        for contestant in round_of(tuple(present), scenario.base):
            print(f"  round {number + 1}: {contestant}", file=sys.stderr, flush=True)
            samples += _take_part(present[contestant], data, scenario.expected_rows(rows))
    lines = lines_of(samples, scenario.base)
    print(table(lines, absent))
    print(f"ratio: median / median of {scenario.base}; spread: (slowest - fastest run) / median")
    return _as_stored(scenario, rows, repeats, lines, absent)


def _take_part(contestant: Contestant, data: Path, expected: int) -> list[Sample]:
    work = RESULTS / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    contestant.prepare(work, data)
    samples: list[Sample] = []
    for step in contestant.steps(work, data):
        began = time.perf_counter()
        output = _run_command(step.command, work, contestant.name)
        seconds = time.perf_counter() - began
        if not step.cold:
            samples += list(_measured(output, step.measure, contestant.name))
        else:
            samples.append(Sample(step.measure, contestant.name, seconds))
        if (written := contestant.rows(work)) != expected:
            raise BenchError(f"{contestant.name} has {written} rows after {step.measure}, not {expected}")
    return samples


def _measured(output: str, measure: str, contestant: str) -> Iterator[Sample]:
    """The measurements that a step printed: lines ``measured <number> [<of what>]``."""
    for line in output.splitlines():
        if line.startswith(_MEASURED):
            number, _, own = line[len(_MEASURED) :].partition(" ")
            yield Sample(own or measure, contestant, float(number))


def _run_command(command: Sequence[str], work: Path, name: str) -> str:
    done = subprocess.run(
        command, cwd=work, env=environment(), capture_output=True, encoding="utf-8", errors="replace", check=False
    )
    if done.returncode:
        raise BenchError(f"{name} failed in {work}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout


def _as_stored(
    scenario: Scenario, rows: int, repeats: int, lines: Sequence[Line], absent: Mapping[str, str]
) -> dict[str, Any]:
    return {
        "about": scenario.about,
        "rows": rows,
        "repeats": repeats,
        "base": scenario.base,
        "absent": dict(absent),
        "lines": [line.to_json() for line in lines],
    }


def _store(new: Mapping[str, Any]) -> None:
    """Store the newest results of every scenario that ran here."""
    file = RESULTS / "results.json"
    before = json.loads(file.read_text(encoding="utf-8"))["scenarios"] if file.exists() else {}
    # Results in an older format have no machine.
    results = {name: found for name, found in before.items() if "machine" in found} | dict(new)
    file.write_text(json.dumps({"scenarios": results}, indent=1) + "\n", encoding="utf-8")


def _machine() -> dict[str, Any]:
    return {
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        # A busy machine spoils the measurement; this shows it.
        "load_before": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        **{package: version(package) for package in _PACKAGES},
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except BenchError as error:
        sys.exit(f"error: {error}")
