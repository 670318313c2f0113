"""What the points of a campaign share: one warm session, the input, and what uninterrupted updates made of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from campaign.oracle import Picture, differences, picture
from campaign.places import Span
from campaign.state import TIMED, differing
from campaign.strike import MARK
from campaign.victim import Order
from campaign.workload import LOADED, Ground, Scenario
from headrace.model.outcome import Outcome, UpdateState
from headrace.plan.backfills import Backfill
from headrace.plan.steps import Plan
from headrace.project.lease_holders import LeaseTerms
from headrace.project.open import Project
from headrace.project.test_harness import Harness
from headrace.runtime.failpoints import Failpoint, Failpoints, walk_past
from headrace.settings.discover import find_settings
from headrace.settings.load import load_settings
from headrace.spark.startup.open_session import open_session
from headrace.testing.java import FIRST_COMPILER
from headrace.testing.warm import unchanged

ROOT = Path(__file__).resolve().parents[1]
# Generous: a victim that takes longer hangs.
PATIENCE_S = 240.0


class CampaignError(Exception):
    """The campaign itself does not work; no point can be judged."""


class Victim:
    """A process that waits for its turn.

    Args:
        order: what it will do.
        name: which tells its files and processes from those of other victims.
        environ: of the process.
    """

    def __init__(self, order: Order, name: str, environ: Mapping[str, str]) -> None:
        self.folder = Path(order.folder)
        # A campaign that was broken off may have left processes of the same point.
        self.mark = f"{self.folder}/{name} of {os.getpid()}"
        self.log = self.folder / f"{name}.log"
        self._ready = self.folder / "ready"
        self._ready.unlink(missing_ok=True)
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "campaign.victim", order.to_json()],
                cwd=ROOT,
                env={**environ, MARK: self.mark},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def await_ready(self) -> None:
        """Return when it has its JVM and waits.

        Raises:
            CampaignError: it has ended, or takes too long.
        """
        deadline = time.monotonic() + PATIENCE_S
        while not self._ready.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise CampaignError(f"a victim did not get ready, see {self.log}:\n{self.said()[-2000:]}")
            time.sleep(0.02)

    def go(self) -> None:
        """Let it run."""
        assert self.process.stdin is not None  # noqa: S101 - it was asked for
        self.process.stdin.write(b"go\n")
        self.process.stdin.flush()

    def exit_code(self) -> int | None:
        """How it ended, or None when it hangs; it is ended then."""
        try:
            return self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None
        finally:
            self.close()

    def close(self) -> None:
        """Let go of it; one that still waits for its turn ends."""
        if self.process.stdin is not None and not self.process.stdin.closed:
            self.process.stdin.close()

    def said(self) -> str:
        """What it has printed."""
        return self.log.read_text(encoding="utf-8", errors="replace")


class Arena:
    """Runs updates in this process and starts victims in others.

    Args:
        base: a folder; what is in it is replaced.
        master: of this process's session and of the victims'.
        environ: the environment.
        scenarios: of the points to come.
    """

    def __init__(
        self, base: Path, master: str, environ: Mapping[str, str], scenarios: Collection[Scenario] = tuple(Scenario)
    ) -> None:
        self.master = master
        self.environ = {**environ, "HEADRACE_MASTER": master}
        self.ground = Ground(base)
        confs = {
            "spark.master": master,
            "spark.driver.memory": "3g",
            "spark.driver.extraJavaOptions": FIRST_COMPILER,
        }
        self._session = open_session(
            name="campaign", connectors=(), confs=confs, log_folder=base / "spark", environ=self.environ
        )
        self._wholes: dict[Scenario, Picture] = {}
        self.spans: dict[Scenario, Span] = {}
        self.ground.prepare(self._uninterrupted, self._begin, scenarios)

    def run(self, folder: Path, *, host: str | None = None, terms: LeaseTerms | None = None) -> Outcome:
        """One update of a project in this process, which takes the lease from whom it has to."""
        with unchanged(self._session, self.ground.base):
            return self._project(folder, walk_past, host, terms or LeaseTerms()).run()

    def plan(self, folder: Path) -> Plan:
        """What another update of a project would do."""
        with unchanged(self._session, self.ground.base):
            return self._project(folder, walk_past, None, LeaseTerms()).plan()

    def faults(self, folder: Path, scenario: Scenario, *, repeats: bool = False) -> list[str]:
        """In what a project differs from an uninterrupted one; and whether anything is left to do."""
        found = picture(folder)
        texts = differences(found, self._wholes[scenario], repeats=repeats)
        if scenario is Scenario.STATE:
            texts += [f"{name} is not what a batch gives" for name, *_ in differing(lambda name: found.tables[name])]
        plan = self.plan(folder)
        timed = TIMED if scenario is Scenario.STATE else ()
        plan = replace(plan, flows=tuple(step for step in plan.flows if step.flow.name not in timed))
        return texts if plan.empty else [*texts, f"the plan after a successful update is not empty:\n{plan.describe()}"]

    def victim(self, order: Order, name: str = "victim", **environ: str) -> Victim:
        """A process that gets ready, and waits then."""
        return Victim(order, name, {**self.environ, **environ})

    def close(self) -> None:
        """End the session."""
        self._session.stop()

    def _uninterrupted(self, folder: Path, scenario: Scenario) -> None:
        batches, versions = _next_batches(folder), _next_versions(folder)
        passes: Counter[Failpoint] = Counter()
        with unchanged(self._session, self.ground.base):
            project = self._project(folder, lambda point: passes.update([point]), None, LeaseTerms())
            if scenario is Scenario.LOAD:
                flow, end = LOADED
                project.backfill(Backfill(flow, end=end))
                # The victim does no more than that; the update that follows is not counted.
                project = self._project(folder, walk_past, None, LeaseTerms())
            outcome = project.run(full_refresh_all=scenario is Scenario.REFRESH)
        if outcome.state is not UpdateState.COMPLETED:
            raise CampaignError(f"the uninterrupted update in {folder} ended as {outcome.state.value}: {outcome.error}")
        self._wholes[scenario] = picture(folder)
        made = {flow: range(batches.get(flow, 0), after) for flow, after in _next_batches(folder).items()}
        commits = {table: range(versions.get(table, 0), after) for table, after in _next_versions(folder).items()}
        self.spans[scenario] = Span(passes, made, commits)
        if faults := self.faults(folder, scenario):
            raise CampaignError(f"the uninterrupted update in {folder} is not right: {faults}")

    def _begin(self, folder: Path, tables: Sequence[str]) -> None:
        with unchanged(self._session, self.ground.base):
            self._project(folder, walk_past, None, LeaseTerms()).run(refresh=tables)

    def _project(self, folder: Path, at: Failpoints, host: str | None, terms: LeaseTerms) -> Project:
        environ = {**self.environ, "HEADRACE_HOST": host} if host else self.environ
        settings = load_settings(find_settings(folder), environ=environ)
        return Project(settings, environ, Harness(at=at, terms=terms))


def forget(folder: Path) -> None:
    """Remove a project that went well; a session that still writes there does not matter."""
    shutil.rmtree(folder, ignore_errors=True)


def _next_batches(folder: Path) -> dict[str, int]:
    """The number that each stream's next batch has in its first epoch."""
    logs = (folder / "storage" / "checkpoints" / "default").glob("*/*/0/offsets")
    return {log.parents[1].name: _next_number(log, "[0-9]*") for log in logs}


def _next_versions(folder: Path) -> dict[str, int]:
    """The number that the next commit to each table of the storage has, the event log's and others of its own too."""
    storage = folder / "storage"
    logs = [log for kind in ("tables", "system") for log in (storage / kind).rglob("_delta_log")]
    return {log.parent.relative_to(storage).as_posix(): _next_number(log, "*.json") for log in logs}


def _next_number(folder: Path, pattern: str) -> int:
    return 1 + max((int(file.stem) for file in folder.glob(pattern) if file.stem.isdigit()), default=-1)


def environment() -> dict[str, str]:
    """This process's environment; no network name is waited for, and Java compiles for work that is little."""
    java = os.environ.get("JDK_JAVA_OPTIONS", FIRST_COMPILER)
    own = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "JDK_JAVA_OPTIONS": java}
    return {**os.environ, **own}
