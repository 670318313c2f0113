"""What the points of a campaign share: a warm session, the input, and the results of uninterrupted updates."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from campaign.oracle import Snapshot, differences, snapshot
from campaign.places import Span
from campaign.state import TIMED, differing
from campaign.stores import Disk, Store
from campaign.strike import MARK
from campaign.victim import Order
from campaign.workload import LOADED, Scenario, Workspace
from headrace.metrics.catalogue import UPDATE_STATE
from headrace.model.maintenance import MaintenancePolicy, MaintenanceRequest
from headrace.model.outcome import ACTIVE_STATES, Outcome, UpdateState
from headrace.plan.backfills import BackfillRequest
from headrace.plan.maintenance import Action
from headrace.plan.steps import Plan
from headrace.project.lease_holders import LeaseTiming
from headrace.project.open import Project
from headrace.project.test_harness import Harness
from headrace.runtime.failpoints import Failpoint, Failpoints, no_failpoint
from headrace.settings.discover import find_settings
from headrace.settings.load import load_settings
from headrace.spark.startup.open_session import open_session
from headrace.testing.java import FIRST_COMPILER
from headrace.testing.warm import unchanged

_NEWEST_STATE = "SELECT state FROM event_log_updates ORDER BY started_at DESC LIMIT 1"
ROOT = Path(__file__).resolve().parents[1]
# Generous; a victim that exceeds it counts as hanging.
TIMEOUT_S = 240.0


class CampaignError(Exception):
    """The campaign itself failed; no point can be evaluated."""


class Victim:
    """A process that starts its JVM, then waits for :meth:`go`.

    Args:
        order: what it does.
        name: distinguishes its files and processes from those of other victims.
        environ: of the process.
    """

    def __init__(self, order: Order, name: str, environ: Mapping[str, str]) -> None:
        self.folder = Path(order.folder)
        # An aborted campaign may have left processes of the same point.
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
        """Wait until it has its JVM and waits for :meth:`go`.

        Raises:
            CampaignError: it exited, or timed out.
        """
        deadline = time.monotonic() + TIMEOUT_S
        while not self._ready.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise CampaignError(f"a victim did not get ready, see {self.log}:\n{self.output()[-2000:]}")
            time.sleep(0.02)

    def go(self) -> None:
        """Let it run its command line."""
        assert self.process.stdin is not None  # noqa: S101 - opened as a pipe
        self.process.stdin.write(b"go\n")
        self.process.stdin.flush()

    def exit_code(self) -> int | None:
        """Wait for its exit code; kills it and returns None if it hangs."""
        try:
            return self.process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None
        finally:
            self.close()

    def close(self) -> None:
        """Close its input; a victim that still waits exits."""
        if self.process.stdin is not None and not self.process.stdin.closed:
            self.process.stdin.close()

    def output(self) -> str:
        """The output so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")


class Arena:
    """Runs updates in this process and starts victims in others.

    Args:
        base: a folder, whose content is replaced.
        master: the Spark master of this process's session and of the victims.
        environ: the environment.
        scenarios: the scenarios of the points.
        store: where the storages lie.
    """

    def __init__(
        self,
        base: Path,
        master: str,
        environ: Mapping[str, str],
        scenarios: Collection[Scenario] = tuple(Scenario),
        store: Store | None = None,
    ) -> None:
        self.store = store or Disk()
        # As the command line of a campaign says it.
        self.master = f"{master}{self.store.words}"
        self.environ = {**environ, "HEADRACE_MASTER": master}
        self.workspace = Workspace(base, self.store)
        confs = {
            "spark.master": master,
            "spark.driver.memory": "3g",
            "spark.driver.extraJavaOptions": FIRST_COMPILER,
        }
        self._session = open_session(
            name="campaign",
            connectors=self.store.connectors,
            confs=confs,
            log_folder=base / "spark",
            environ=self.environ,
        )
        self._expected: dict[Scenario, Snapshot] = {}
        self.spans: dict[Scenario, Span] = {}
        self.workspace.prepare(self._uninterrupted, self._begin, scenarios)

    def run(self, folder: Path, *, host: str | None = None, lease_timing: LeaseTiming | None = None) -> Outcome:
        """Run one update of a project in this process, after taking over the lease if necessary."""
        with unchanged(self._session, self.workspace.base):
            return self._project(folder, no_failpoint, host, lease_timing or LeaseTiming()).run()

    def maintain(self, folder: Path, policy: MaintenancePolicy) -> tuple[Action, ...]:
        """Maintain the storage of a project from this process, which need not have the lease."""
        with unchanged(self._session, self.workspace.base):
            project = self._project(folder, no_failpoint, None, LeaseTiming())
            project.settings = replace(project.settings, maintenance=policy)
            return project.maintain(MaintenanceRequest(short_retention=True), project.plan)

    def differences(self, folder: Path, scenario: Scenario) -> list[str]:
        """The differences of a project's tables and counts from an uninterrupted project, as texts."""
        return differences(snapshot(folder), self._expected[scenario])

    def plan(self, folder: Path) -> Plan:
        """The plan of another update of a project."""
        with unchanged(self._session, self.workspace.base):
            return self._project(folder, no_failpoint, None, LeaseTiming()).plan()

    def faults(self, folder: Path, scenario: Scenario, *, repeats: bool = False) -> list[str]:
        """The differences from an uninterrupted project, and a plan that is not empty, as texts."""
        found = snapshot(folder)
        texts = differences(found, self._expected[scenario], repeats=repeats)
        if scenario is Scenario.STATE:
            texts += [f"{name} is not what a batch gives" for name, *_ in differing(lambda name: found.tables[name])]
        plan = self.plan(folder)
        timed = TIMED if scenario is Scenario.STATE else ()
        plan = replace(plan, flows=tuple(step for step in plan.flows if step.flow.name not in timed))
        return texts if plan.empty else [*texts, f"the plan after a successful update is not empty:\n{plan.describe()}"]

    def status_faults(self, folder: Path, *, ended_as: UpdateState | None = None) -> list[str]:
        """What the status, the metrics and SQL say wrongly of a project after its process has ended, as texts.

        Args:
            folder: of the project.
            ended_as: the state in which its update ended; None if it was hit.
        """
        project = self._project(folder, no_failpoint, None, LeaseTiming())
        found, metrics = project.status(), project.metrics(tables=False).of(UPDATE_STATE)
        if found is None:
            return []
        texts = [f"metrics show {sorted(metrics)}"] if set(metrics) != {(found.state.value,)} else []
        with unchanged(self._session, self.workspace.base):
            ((state,),) = project.sql(_NEWEST_STATE).rows
        texts += [f"SQL shows {state}"] if state != found.state.value else []
        active = [flow.flow for flow in found.flows if flow.state in ACTIVE_STATES]
        if found.state is UpdateState.RUNNING or active or (ended_as is not None and found.state is not ended_as):
            texts.append(f"the status is {found.state.value} with active flows {active}, although no process runs")
        return texts

    def victim(self, order: Order, name: str = "victim", **environ: str) -> Victim:
        """Start a victim process, which waits for :meth:`Victim.go`."""
        return Victim(order, name, {**self.environ, **environ})

    def close(self) -> None:
        """Stop the session."""
        self._session.stop()

    def _uninterrupted(self, folder: Path, scenario: Scenario) -> None:
        batches, versions = _next_batches(folder), _next_versions(folder)
        passes: Counter[Failpoint] = Counter()
        with unchanged(self._session, self.workspace.base):
            project = self._project(folder, lambda point: passes.update([point]), None, LeaseTiming())
            if scenario is Scenario.LOAD:
                flow, end = LOADED
                project.backfill(BackfillRequest(flow, end=end))
                # The victim does only this, so the update below is not counted.
                project = self._project(folder, no_failpoint, None, LeaseTiming())
            outcome = project.run(full_refresh_all=scenario is Scenario.REFRESH)
        if outcome.state is not UpdateState.COMPLETED:
            raise CampaignError(f"the uninterrupted update in {folder} ended as {outcome.state.value}: {outcome.error}")
        self._expected[scenario] = snapshot(folder)
        stream_batches = {flow: range(batches.get(flow, 0), after) for flow, after in _next_batches(folder).items()}
        commits = {table: range(versions.get(table, 0), after) for table, after in _next_versions(folder).items()}
        self.spans[scenario] = Span(passes, stream_batches, commits)
        if faults := self.faults(folder, scenario):
            raise CampaignError(f"the uninterrupted update in {folder} is not right: {faults}")

    def _begin(self, folder: Path, tables: Sequence[str]) -> None:
        with unchanged(self._session, self.workspace.base):
            self._project(folder, no_failpoint, None, LeaseTiming()).run(refresh=tables)

    def _project(self, folder: Path, failpoints: Failpoints, host: str | None, lease_timing: LeaseTiming) -> Project:
        environ = {**self.environ, "HEADRACE_HOST": host} if host else self.environ
        settings = load_settings(find_settings(folder), environ=environ)
        return Project(settings, environ, Harness(failpoints=failpoints, lease_timing=lease_timing))


def _next_batches(folder: Path) -> dict[str, int]:
    """The number of each stream's next batch in its first epoch."""
    logs = (folder / "storage" / "checkpoints" / "default").glob("*/*/0/offsets")
    return {log.parents[1].name: _next_number(log, "[0-9]*") for log in logs}


def _next_versions(folder: Path) -> dict[str, int]:
    """The next version of each table in the storage, including system tables such as the event log."""
    storage = folder / "storage"
    logs = [log for kind in ("tables", "system") for log in (storage / kind).rglob("_delta_log")]
    return {log.parent.relative_to(storage).as_posix(): _next_number(log, "*.json") for log in logs}


def _next_number(folder: Path, pattern: str) -> int:
    return 1 + max((int(file.stem) for file in folder.glob(pattern) if file.stem.isdigit()), default=-1)


def environment() -> dict[str, str]:
    """This process's environment, with a fixed local address and Java options for short work."""
    java = os.environ.get("JDK_JAVA_OPTIONS", FIRST_COMPILER)
    own = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "JDK_JAVA_OPTIONS": java}
    return {**os.environ, **own}
