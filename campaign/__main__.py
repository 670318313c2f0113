"""The command line of the campaign."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from campaign.arena import ROOT, Arena, CampaignError, environment, forget
from campaign.kills import Verdict, hit_all
from campaign.places import Choice, Shot, Spans, chosen, of_merges, of_states
from campaign.report import Judged, command, entry, page, stored
from campaign.soak import WHOLE_MINUTES, Sample, grown, read_samples, soak
from campaign.soak import page as soak_page
from campaign.soak import stored as stored_sample
from campaign.strike import Who
from campaign.workload import Scenario
from campaign.zombies import race_all, stop_all

WORK = ROOT / ".campaign"
PAGE = ROOT / "docs" / "reference" / "campaign.md"
# Beside the page, so that sections which are run at other times are added to it.
RESULTS = PAGE.with_suffix(".json")
MASTERS = ("local[2]", "local-cluster[2,1,1024]")
# How many points, or examples, a section has.
SECTIONS = {
    "kill": 48,
    "term": 12,
    "zombie": 8,
    "race": 4,
    "changes": 100,
    "state": 40,
    "sequences": 300,
    "schedules": 200,
    "orders": 500,
    "state_orders": 40,
    "stores": 300,
    "soak": 1,
}
# Sections that are property tests with many examples: the tests, and what an example is.
PROPERTIES = {
    "sequences": ("tests/spark/test_sequences.py", "sequences of steps"),
    "schedules": ("tests/unit/autoloader/test_schedules.py", "schedules of files that come and go, with crashes"),
    "orders": (
        "tests/spark/test_change_order.py tests/spark/test_snapshot_order.py tests/unit/cdc",
        "sets of change events, each sorted and in 8 other orders and batches, and series of snapshots in any updates",
    ),
    "state_orders": (
        "tests/spark/test_stateful_results.py",
        "sets of events, in updates with a crash in each, through nine streams that keep state",
    ),
    "stores": (
        "tests/spark/test_stores.py",
        "stores of a flow that are restored, deleted or damaged between updates",
    ),
}
# The section that runs one update for long, and how often it gets a file.
SOAK, FEED_EVERY_S = "soak", 1.0
SOAK_PAGE = PAGE.with_name("long-run.md")
# Sections whose victims run a project of their own, and the places in it.
OWN_PLACES: Mapping[str, tuple[Scenario, Callable[[Spans], Iterator[Choice]]]] = {
    "changes": (Scenario.CHANGES, of_merges),
    "state": (Scenario.STATE, of_states),
}
# Of each fault; the results have all of it.
_SHOWN_LINES, _SHOWN_WIDTH = 5, 300


@dataclass(frozen=True)
class Asked:
    """What the command line says."""

    sections: tuple[str, ...]
    seed: int
    masters: tuple[str, ...]
    points: int | None
    point: int | None
    examples: int | None
    goes_on: bool
    publish: bool
    minutes: float = WHOLE_MINUTES
    feed_every_s: float = FEED_EVERY_S
    samples: Path | None = None

    def count(self, section: str) -> int:
        """How many points of a section there are."""
        return self.points or SECTIONS[section]

    def numbers(self, section: str) -> range:
        """Which of them to run."""
        return range(self.point, self.point + 1) if self.point else range(1, self.count(section) + 1)

    def words(self, master: str) -> list[str]:
        """The same for one master, as a command line."""
        words = ["--only", ",".join(self.sections), "--seed", str(self.seed), "--master", master]
        words += ["--points", str(self.points)] if self.points else []
        words += ["--point", str(self.point)] if self.point else []
        words += ["--examples", str(self.examples)] if self.examples else []
        words += ["--go-on"] if self.goes_on else []
        words += ["--minutes", str(self.minutes), "--feed-every", str(self.feed_every_s)]
        words += ["--samples", str(self.samples)] if self.samples else []
        return [*words, *(["--publish"] if self.publish else [])]


def main(words: Sequence[str]) -> int:
    """Run the sections that the command line names; 1 when a point fails."""
    asked = _asked(words)
    if len(asked.masters) > 1:
        # A process has one session, and a session one master.
        calls = [[sys.executable, "-m", "campaign", *asked.words(master)] for master in asked.masters]
        return max(subprocess.run(call, cwd=ROOT, env=environment(), check=False).returncode for call in calls)
    (master,) = asked.masters
    WORK.mkdir(exist_ok=True)
    failed = 0
    fought = [section for section in asked.sections if section not in PROPERTIES and section != SOAK]
    if fought:
        began = time.monotonic()
        print(f"{master}: uninterrupted updates to compare with", flush=True)
        arena = Arena(WORK / _plain(master), master, environment(), _scenarios(fought))
        print(f"  {time.monotonic() - began:.0f} s", flush=True)
        try:
            failed += sum(_section(arena, section, asked) for section in fought)
        finally:
            arena.close()
    if master == MASTERS[0]:
        failed += sum(_property(section, asked) for section in asked.sections if section in PROPERTIES)
        failed += _soak(asked) if SOAK in asked.sections else 0
    return 1 if failed else 0


def _scenarios(sections: Sequence[str]) -> list[Scenario]:
    """What the points of sections start from: those of merges from one of their own, the others from any other."""
    own = {section: scenario for section, (scenario, _) in OWN_PLACES.items()}
    others = [scenario for scenario in Scenario if scenario not in own.values()]
    found = others if set(sections) - own.keys() else []
    return [*found, *(scenario for section, scenario in own.items() if section in sections)]


def _asked(words: Sequence[str]) -> Asked:
    parser = argparse.ArgumentParser(prog="python -m campaign", description="Faults on purpose, at seeded places.")
    parser.add_argument("--only", metavar="A,B", help=f"these sections alone; there are {', '.join(SECTIONS)}")
    parser.add_argument("--seed", type=int, default=1, help="which points are chosen (default: 1)")
    parser.add_argument("--points", type=int, help="how many points a section has (default: its own number)")
    parser.add_argument("--point", type=int, help="this one alone, counted from 1")
    parser.add_argument("--examples", type=int, help="of each property test (default: its own number)")
    parser.add_argument("--master", action="append", help=f"may be repeated (default: {' and '.join(MASTERS)})")
    parser.add_argument("--go-on", action="store_true", help="leave out the points that an earlier call has judged")
    parser.add_argument("--minutes", type=float, default=WHOLE_MINUTES, help="of the soak (default: 120)")
    parser.add_argument("--feed-every", type=float, default=FEED_EVERY_S, help="seconds, of the soak (default: 1)")
    parser.add_argument("--samples", type=Path, help="of a soak that has run, or still runs: judge these, run none")
    parser.add_argument("--publish", action="store_true", help=f"write the results into {PAGE.relative_to(ROOT)}")
    given = parser.parse_args(words)
    sections = tuple(given.only.split(",")) if given.only else tuple(SECTIONS)
    if unknown := sorted(set(sections) - SECTIONS.keys()):
        parser.error(f"there is no section {', '.join(unknown)}")
    masters = tuple(given.master or MASTERS)
    which = (given.points, given.point, given.examples, given.go_on, given.publish, given.minutes)
    return Asked(sections, given.seed, masters, *which, given.feed_every, given.samples)


def _section(arena: Arena, section: str, asked: Asked) -> int:
    """Run a section, print and store its verdicts; how many failed."""
    print(f"\n{section} on {arena.master}, seed {asked.seed}", flush=True)
    name = f"{_plain(arena.master)}-{section}-{asked.seed}{'' if asked.point is None else '-again'}"
    judged = Judged(WORK / f"{name}.jsonl", kept=asked.goes_on)
    numbers = [number for number in asked.numbers(section) if number not in judged.numbers]
    for verdict, folder in _verdicts(arena, section, asked, numbers):
        judged.add(verdict)
        print(_line(verdict), flush=True)
        if verdict.passed:
            forget(folder)
        else:
            kept = _kept(folder, f"{_plain(arena.master)}-{section}-{asked.seed}-{verdict.number}")
            print(_how_to_look(verdict, kept, command(section, arena.master, asked.seed, verdict.number)), flush=True)
    return _store(section, arena.master, asked, judged.verdicts)


def _verdicts(arena: Arena, section: str, asked: Asked, numbers: Sequence[int]) -> Iterator[tuple[Verdict, Path]]:
    if section == "race":
        return race_all(arena, numbers)
    _, places = OWN_PLACES.get(section, (None, None))
    shots = chosen(asked.seed, 2 * asked.numbers(section)[-1], arena.spans, _WHOM[section], places)
    if section == "zombie":
        # Whoever takes over runs one update, and the two end with the same tables.
        shots = [shot for shot in shots if shot.scenario not in (Scenario.ENDLESS, Scenario.LOAD)]
    wanted: list[tuple[int, Shot]] = [(number, shots[number - 1]) for number in numbers]
    if section == "zombie":
        return stop_all(arena, wanted)
    return hit_all(arena, wanted, signal.SIGTERM if section == "term" else signal.SIGKILL)


# A JVM alone that is told to end is as one that was killed.
_WHOM = {
    "kill": tuple(Who),
    "changes": tuple(Who),
    "state": tuple(Who),
    "term": (Who.PYTHON, Who.GROUP),
    "zombie": (Who.GROUP, Who.PYTHON, Who.GROUP, Who.JVM),
}


def _property(section: str, asked: Asked) -> int:
    """A property test with many examples; 1 when one fails."""
    test, kind = PROPERTIES[section]
    examples = asked.examples or SECTIONS[section]
    print(f"\n{section}, seed {asked.seed}, {examples} examples", flush=True)
    began = time.monotonic()
    call = [sys.executable, "-m", "pytest", *test.split(), "-q", f"--hypothesis-seed={asked.seed}", "--timeout=0"]
    environ = {**environment(), "HEADRACE_EXAMPLES": str(examples)}
    code = subprocess.run(call, cwd=ROOT, env=environ, check=False).returncode
    faults = (f"{test} ended with {code}",) if code else ()
    what = f"{examples} {kind}"
    verdict = Verdict(1, what, True, code, time.monotonic() - began, faults)  # noqa: FBT003
    return _store(section, MASTERS[0], asked, [verdict.to_json()], examples)


def _soak(asked: Asked) -> int:
    """A long run; how many measures grow."""
    samples = _soaked(asked) if asked.samples is None else read_samples(asked.samples)
    if asked.publish:
        SOAK_PAGE.write_text(soak_page(samples, asked.feed_every_s, os.cpu_count() or 1), encoding="utf-8")
    over = grown(samples)
    told = [f"  {name} grows: {before:g}, then {after:g}" for name, (before, after) in over.items()]
    print("\n".join(told) or "  flat")
    return len(over)


def _soaked(asked: Asked) -> list[Sample]:
    """The samples of a long run, which are written to a file as it goes on."""
    print(f"\nsoak, {asked.minutes:g} minutes", flush=True)
    samples = []
    with (WORK / f"{SOAK}.jsonl").open("w", encoding="utf-8") as file:
        for sample in soak(WORK / SOAK, asked.minutes, environment(), asked.feed_every_s):
            samples.append(sample)
            print(f"  {sample}", flush=True)
            file.write(stored_sample(sample))
            file.flush()
    return samples


def _store(
    section: str, master: str, asked: Asked, verdicts: Sequence[Mapping[str, Any]], points: int | None = None
) -> int:
    new = entry(section, master, asked.seed, verdicts, datetime.now(UTC).isoformat(), points)
    print(f"{section} on {master}: {new['points']} points, {new['struck']} hit in time, {new['failed']} failed")
    if asked.point is None:
        results = stored(RESULTS if asked.publish else WORK / "results.json", new, _machine())
        if asked.publish:
            PAGE.write_text(page(results), encoding="utf-8")
    return int(new["failed"])


def _line(verdict: Verdict) -> str:
    said = "ok" if verdict.passed else "FAILED"
    over = "" if verdict.struck else "  (over before it was hit)"
    return f"  {verdict.number:>3}  {said:<6}  {verdict.seconds:5.1f} s  {verdict.what}{over}"


def _kept(folder: Path, name: str) -> Path:
    kept = WORK / "failed" / name
    shutil.rmtree(kept, ignore_errors=True)
    kept.parent.mkdir(parents=True, exist_ok=True)
    return Path(shutil.move(folder, kept))


def _how_to_look(verdict: Verdict, kept: Path, again: str) -> str:
    lines = [line[:_SHOWN_WIDTH] for fault in verdict.faults for line in fault.splitlines()[:_SHOWN_LINES]]
    lines += [
        f"what it printed: {kept}/victim.log",
        f"Spark's log:     {kept}/storage/system/logs/spark.log",
        f"events:          headrace --project {kept} events",
        f"again:           {again}",
    ]
    return "\n".join(f"       {line}" for line in lines)


def _machine() -> dict[str, str]:
    packages = {package: version(package) for package in ("headrace", "pyspark", "deltalake")}
    return {"cores": str(os.cpu_count()), "system": platform.system(), "python": platform.python_version(), **packages}


def _plain(master: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in master).strip("-")


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except CampaignError as error:
        sys.exit(f"error: {error}")
