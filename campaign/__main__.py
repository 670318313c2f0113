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

from campaign.arena import ROOT, Arena, CampaignError, environment
from campaign.case_verdicts import FILE
from campaign.kills import Verdict, hit_all
from campaign.maintain import maintain_all
from campaign.places import Choice, Shot, Spans, choose_shots, merge_choices, small_choices, state_choices
from campaign.report import VerdictStore, command, entry, page, stored
from campaign.soak import WHOLE_MINUTES, Sample, growing_measures, read_samples, soak
from campaign.soak import page as soak_page
from campaign.soak import stored as stored_sample
from campaign.stores import NoGatewayError, opened_store
from campaign.strike import Who
from campaign.workload import Scenario
from campaign.zombies import race_all, stop_all

WORK = ROOT / ".campaign"
PAGE = ROOT / "docs" / "reference" / "campaign.md"
# Next to the page, so that a later call can add its sections.
RESULTS = PAGE.with_suffix(".json")
MASTERS = ("local[2]", "local-cluster[2,1,1024]")
# Number of points, or examples, of each section.
SECTIONS = {
    "kill": 48,
    "term": 12,
    "zombie": 8,
    "race": 4,
    "maintain": 40,
    "changes": 100,
    "state": 40,
    "small": 60,
    "sequences": 300,
    "schedules": 200,
    "orders": 500,
    "state_orders": 40,
    "views": 40,
    "stores": 300,
    "savepoints": 40,
    "savepoint_law": 5,
    "s3_commits": 100,
    "processes": 1,
    "stages": 20,
    "design_ways": 1,
    "design": 28,  # They cover all 253 pairs of a source, an output and a latency.
    "soak": 1,
}
# Sections that are property tests with many examples: the tests, and what one example is.
PROPERTIES = {
    "sequences": ("tests/spark/test_pipeline_laws.py", "sequences of steps"),
    "schedules": ("tests/unit/autoloader/test_schedules.py", "schedules of files that come and go, with crashes"),
    "orders": (
        "tests/spark/test_change_order.py tests/spark/test_snapshot_order.py tests/unit/cdc",
        "sets of change events, each sorted and in 8 other orders and batches, and series of snapshots in any updates",
    ),
    "state_orders": (
        "tests/spark/test_stateful_results.py",
        "sets of events, in updates with a crash in each, through nine streams that keep state",
    ),
    "views": (
        "tests/spark/test_incremental_views.py tests/spark/test_view_changes.py",
        "sequences of changes of two tables and of the views over them, and generated queries with changes of theirs",
    ),
    "stores": (
        "tests/spark/test_store_laws.py",
        "stores of a flow that are restored, deleted or damaged between updates",
    ),
    "savepoints": (
        "tests/e2e/test_savepoint_kills.py",
        "processes on each of a disk and S3 that are killed at a numbered step of creating or restoring a savepoint",
    ),
    "s3_commits": ("tests/e2e/test_s3_commits.py", "commits of each of two drivers to a table on S3"),
    "processes": (
        "tests/e2e/test_warm.py tests/e2e/test_schedules.py tests/e2e/test_serve_kills.py tests/e2e/test_full_disk.py",
        "kills of each process of workers, servers and updates, and disks that are full at each of three moments",
    ),
    "stages": (
        "tests/spark/test_stages.py tests/e2e/test_stage_kills.py",
        "swaps that crash, and as many whose process is killed, at a step; and each change of a table's layout",
    ),
    "design_ways": (
        "tests/spark/test_designs.py tests/spark/test_designs_from_samples.py",
        "designs of each format, policy, example and sample, with their own tests",
    ),
    "savepoint_law": (
        "tests/spark/test_savepoint_law.py",
        "sequences with a restore of all shapes of flows, for each of three sources, read directly or through a table",
    ),
}
# The section whose points are numbered cases of one test, which share a session.
DESIGN, DESIGN_CASES = "design", "tests/spark/test_designs.py::test_pairs_pass_their_own_tests"
# The section that runs one update for hours, and the seconds between its input files.
SOAK, FEED_EVERY_S = "soak", 1.0
SOAK_PAGE = PAGE.with_name("long-run.md")
# Sections with their own points: the scenario of their victims, and the points to hit in it.
OWN_CHOICES: Mapping[str, tuple[Scenario, Callable[[Spans], Iterator[Choice]]]] = {
    "changes": (Scenario.CHANGES, merge_choices),
    "state": (Scenario.STATE, state_choices),
    "small": (Scenario.NEXT, small_choices),
}
# These scenarios have a project of their own, which the other sections do not run.
_OWN_PROJECTS = (Scenario.CHANGES, Scenario.STATE)
# How much of each fault the terminal shows; the results file has all of it.
_SHOWN_LINES, _SHOWN_WIDTH = 5, 300


@dataclass(frozen=True)
class Arguments:
    """The parsed command line."""

    sections: tuple[str, ...]
    seed: int
    masters: tuple[str, ...]
    store: str
    points: int | None
    point: int | None
    examples: int | None
    resume: bool
    publish: bool
    minutes: float = WHOLE_MINUTES
    feed_every_s: float = FEED_EVERY_S
    samples: Path | None = None

    def count(self, section: str) -> int:
        """The number of points of a section."""
        return self.points or SECTIONS[section]

    def numbers(self, section: str) -> range:
        """The points of a section to run."""
        return range(self.point, self.point + 1) if self.point else range(1, self.count(section) + 1)

    def words(self, master: str) -> list[str]:
        """The equivalent command line for one master."""
        words = ["--only", ",".join(self.sections), "--seed", str(self.seed), "--master", master]
        words += ["--store", self.store, *(["--points", str(self.points)] if self.points else [])]
        words += ["--point", str(self.point)] if self.point else []
        words += ["--examples", str(self.examples)] if self.examples else []
        words += ["--go-on"] if self.resume else []
        words += ["--minutes", str(self.minutes), "--feed-every", str(self.feed_every_s)]
        words += ["--samples", str(self.samples)] if self.samples else []
        return [*words, *(["--publish"] if self.publish else [])]


def main(words: Sequence[str]) -> int:
    """Run the sections that the command line names; 1 when a point fails."""
    arguments = _parse_arguments(words)
    if len(arguments.masters) > 1:
        # A process has one session, and a session has one master.
        calls = [[sys.executable, "-m", "campaign", *arguments.words(master)] for master in arguments.masters]
        return max(subprocess.run(call, cwd=ROOT, env=environment(), check=False).returncode for call in calls)
    (master,) = arguments.masters
    WORK.mkdir(exist_ok=True)
    failed = 0
    others = {*PROPERTIES, DESIGN, SOAK}
    kill_sections = [section for section in arguments.sections if section not in others]
    if kill_sections:
        failed += _kill_sections(kill_sections, master, arguments)
    if master == MASTERS[0]:
        failed += sum(_property(section, arguments) for section in arguments.sections if section in PROPERTIES)
        failed += _designs(arguments) if DESIGN in arguments.sections else 0
        failed += _soak(arguments) if SOAK in arguments.sections else 0
    return 1 if failed else 0


def _kill_sections(sections: Sequence[str], master: str, arguments: Arguments) -> int:
    """Run the sections that share uninterrupted updates; returns the number of failed points."""
    began = time.monotonic()
    print(f"{master}: uninterrupted updates to compare with", flush=True)
    with opened_store(arguments.store, WORK / "s3") as store:
        base = WORK / _plain(f"{master}{store.words}")
        arena = Arena(base, master, environment(), _scenarios(sections), store)
        print(f"  {time.monotonic() - began:.0f} s", flush=True)
        try:
            return sum(_section(arena, section, arguments) for section in sections)
        finally:
            arena.close()


def _scenarios(sections: Sequence[str]) -> list[Scenario]:
    """The scenarios that the points of sections start from; some sections have their own."""
    if set(sections) == {"maintain"}:
        return [Scenario.ENDLESS]
    own = {section: scenario for section, (scenario, _) in OWN_CHOICES.items()}
    found = [scenario for scenario in Scenario if scenario not in _OWN_PROJECTS] if set(sections) - own.keys() else []
    return list(dict.fromkeys([*found, *(scenario for section, scenario in own.items() if section in sections)]))


def _parse_arguments(words: Sequence[str]) -> Arguments:
    parser = argparse.ArgumentParser(prog="python -m campaign", description="Faults on purpose, at seeded places.")
    parser.add_argument("--only", metavar="A,B", help=f"these sections alone; there are {', '.join(SECTIONS)}")
    parser.add_argument("--seed", type=int, default=1, help="which points are chosen (default: 1)")
    parser.add_argument("--points", type=int, help="how many points a section has (default: its own number)")
    parser.add_argument("--point", type=int, help="this one alone, counted from 1")
    parser.add_argument("--examples", type=int, help="of each property test (default: its own number)")
    parser.add_argument("--master", action="append", help=f"may be repeated (default: {' and '.join(MASTERS)})")
    parser.add_argument(
        "--store", choices=("disk", "s3"), default="disk", help="where storages lie; s3: in the gateway of test-servers"
    )
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
    return Arguments(sections, given.seed, masters, given.store, *which, given.feed_every, given.samples)


def _section(arena: Arena, section: str, arguments: Arguments) -> int:
    """Run a section, print and store its verdicts; returns the number of failed points."""
    print(f"\n{section} on {arena.master}, seed {arguments.seed}", flush=True)
    name = f"{_plain(arena.master)}-{section}-{arguments.seed}{'' if arguments.point is None else '-again'}"
    store = VerdictStore(WORK / f"{name}.jsonl", resume=arguments.resume)
    numbers = [number for number in arguments.numbers(section) if number not in store.numbers]
    for verdict, folder in _verdicts(arena, section, arguments, numbers):
        store.add(verdict)
        print(_line(verdict), flush=True)
        if verdict.passed:
            arena.workspace.delete(folder)
        else:
            saved = _save_folder(folder, f"{_plain(arena.master)}-{section}-{arguments.seed}-{verdict.number}")
            print(
                _inspection_lines(verdict, saved, command(section, arena.master, arguments.seed, verdict.number)),
                flush=True,
            )
    return _store(section, arena.master, arguments, store.verdicts)


def _verdicts(
    arena: Arena, section: str, arguments: Arguments, numbers: Sequence[int]
) -> Iterator[tuple[Verdict, Path]]:
    if section == "race":
        return race_all(arena, numbers)
    if section == "maintain":
        return maintain_all(arena, arguments.seed, numbers)
    _, places = OWN_CHOICES.get(section, (None, None))
    shots = choose_shots(arguments.seed, 2 * arguments.numbers(section)[-1], arena.spans, _WHOM[section], places)
    if section == "zombie":
        # The new holder runs one update, so the victim must run the same one.
        shots = [shot for shot in shots if shot.scenario not in (Scenario.ENDLESS, Scenario.LOAD)]
    wanted: list[tuple[int, Shot]] = [(number, shots[number - 1]) for number in numbers]
    if section == "zombie":
        return stop_all(arena, wanted)
    return hit_all(arena, wanted, signal.SIGTERM if section == "term" else signal.SIGKILL)


# SIGTERM to the JVM alone has the same effect as SIGKILL, so `term` leaves it out.
_WHOM = {
    "kill": tuple(Who),
    "changes": tuple(Who),
    "state": tuple(Who),
    "small": tuple(Who),
    "term": (Who.PYTHON, Who.GROUP),
    "zombie": (Who.GROUP, Who.PYTHON, Who.GROUP, Who.JVM),
}


def _property(section: str, arguments: Arguments) -> int:
    """Run a property test with many examples; returns 1 if it fails."""
    test, kind = PROPERTIES[section]
    examples = arguments.examples or SECTIONS[section]
    print(f"\n{section}, seed {arguments.seed}, {examples} examples", flush=True)
    began = time.monotonic()
    call = [sys.executable, "-m", "pytest", *test.split(), "-q", f"--hypothesis-seed={arguments.seed}", "--timeout=0"]
    environ = {**environment(), "HEADRACE_EXAMPLES": str(examples)}
    code = subprocess.run(call, cwd=ROOT, env=environ, check=False).returncode
    faults = (f"{test} ended with {code}",) if code else ()
    what = f"{examples} {kind}"
    verdict = Verdict(1, what, True, code, time.monotonic() - began, faults)  # noqa: FBT003
    return _store(section, MASTERS[0], arguments, [verdict.to_json()], examples)


def _designs(arguments: Arguments) -> int:
    """Run the designs of all pairs in one session; returns how many failed."""
    file = WORK / f"{DESIGN}-{arguments.seed}.jsonl"
    store = VerdictStore(file, resume=arguments.resume)
    print(f"\n{DESIGN}, {arguments.count(DESIGN)} designs", flush=True)
    environ = {**environment(), "HEADRACE_EXAMPLES": str(arguments.count(DESIGN)), FILE: str(file)}
    judged = " or ".join(f"{number:02}-" for number in sorted(store.numbers))
    call = [sys.executable, "-m", "pytest", DESIGN_CASES, "-v", "--timeout=0", "-p", "campaign.case_verdicts"]
    code = subprocess.run([*call, "-k", f"not ({judged})"] if judged else call, cwd=ROOT, env=environ, check=False)
    found = VerdictStore(file, resume=True)
    if code.returncode and all(verdict["code"] == 0 for verdict in found.verdicts):
        raise CampaignError(f"pytest ended with {code.returncode}, and no case has failed")
    return _store(DESIGN, MASTERS[0], arguments, found.verdicts)


def _soak(arguments: Arguments) -> int:
    """Run the soak, or judge stored samples; returns the number of measures that grow."""
    samples = _soaked(arguments) if arguments.samples is None else read_samples(arguments.samples)
    if arguments.publish:
        SOAK_PAGE.write_text(soak_page(samples, arguments.feed_every_s, os.cpu_count() or 1), encoding="utf-8")
    growing = growing_measures(samples)
    messages = [f"  {name} grows: {before:g}, then {after:g}" for name, (before, after) in growing.items()]
    print("\n".join(messages) or "  flat")
    return len(growing)


def _soaked(arguments: Arguments) -> list[Sample]:
    """Run the soak; writes each sample to a file at once."""
    print(f"\nsoak, {arguments.minutes:g} minutes", flush=True)
    samples = []
    with (WORK / f"{SOAK}.jsonl").open("w", encoding="utf-8") as file:
        for sample in soak(WORK / SOAK, arguments.minutes, environment(), arguments.feed_every_s):
            samples.append(sample)
            print(f"  {sample}", flush=True)
            file.write(stored_sample(sample))
            file.flush()
    return samples


def _store(
    section: str, master: str, arguments: Arguments, verdicts: Sequence[Mapping[str, Any]], points: int | None = None
) -> int:
    new = entry(section, master, arguments.seed, verdicts, datetime.now(UTC).isoformat(), points)
    print(f"{section} on {master}: {new['points']} points, {new['struck']} hit in time, {new['failed']} failed")
    if arguments.point is None:
        results = stored(RESULTS if arguments.publish else WORK / "results.json", new, _machine())
        if arguments.publish:
            PAGE.write_text(page(results), encoding="utf-8")
    return int(new["failed"])


def _line(verdict: Verdict) -> str:
    result = "ok" if verdict.passed else "FAILED"
    note = "" if verdict.struck else "  (over before it was hit)"
    return f"  {verdict.number:>3}  {result:<6}  {verdict.seconds:5.1f} s  {verdict.what}{note}"


def _save_folder(folder: Path, name: str) -> Path:
    saved = WORK / "failed" / name
    shutil.rmtree(saved, ignore_errors=True)
    saved.parent.mkdir(parents=True, exist_ok=True)
    return Path(shutil.move(folder, saved))


def _inspection_lines(verdict: Verdict, saved: Path, again: str) -> str:
    lines = [line[:_SHOWN_WIDTH] for fault in verdict.faults for line in fault.splitlines()[:_SHOWN_LINES]]
    lines += [
        f"what it printed: {saved}/victim.log",
        f"Spark's log:     {saved}/storage/system/logs/spark.log",
        f"events:          headrace --project {saved} events",
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
    except (CampaignError, NoGatewayError) as error:
        sys.exit(f"error: {error}")
