"""Requests are run once and in order, whatever dies in between; the runner is real, the command line a small script."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from headrace.errors import PipelineError
from headrace.events.reader import EventReader
from headrace.project.lease_holders import Process
from headrace.project.requests import actions
from headrace.project.requests.request import (
    KEPT_S,
    MOST_KEPT,
    MOST_WAITING,
    Asker,
    Ended,
    Lane,
    Request,
    RequestState,
    UnreadableRequests,
    after,
    begun,
    expired,
    kept,
    next_to_start,
    parse_requests,
    requests_text,
)
from headrace.project.requests.request_book import RequestBook
from headrace.project.requests.request_file import stored_requests
from headrace.project.requests.request_queue import RequestQueue, running_queues
from headrace.project.requests.request_results import result_of
from headrace.project.requests.request_runner import QueueContext, RequestRunner
from headrace.project.requests.running_update import stop_update
from headrace.project.scheduling.child_process import ChildRunner, Printed
from headrace.settings.load import load_settings
from headrace.settings.storage import MonitoringFile

ANN = Asker("ann", "127.0.0.1")
RUN = actions.run(actions.UpdateSelection(refresh=("orders", "-x")))
NOW = 1_800_000_000.0
# Writes its words down, and waits for a file if it exists: "hold" holds it, until it is removed.
SCRIPT = """
import json, pathlib, signal, sys, time
folder, words = pathlib.Path(sys.argv[1]), sys.argv[2:]
signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
with (folder / "calls").open("a") as calls:
    calls.write(json.dumps(words) + "\\n")
while (folder / "hold").exists():
    time.sleep(0.01)
code = int((folder / "code").read_text()) if (folder / "code").exists() else 0
error = {"code": "LEASE.HELD", "message": "held"} if code else None
print(json.dumps({"update_id": "u1", "error": error} if error else {"update_id": "u1"}))
sys.exit(code)
"""


class Pipeline:
    def __init__(self, folder: Path) -> None:
        (folder / "pipeline.yml").write_text("name: shop\n")
        (folder / "headrace.py").write_text(SCRIPT)
        self.folder = folder
        self.settings = load_settings(folder / "pipeline.yml", environ={})
        self.lines: list[str] = []

    def queue(self, now=time.time) -> RequestQueue:
        context = QueueContext(self.settings, {}, "here", str, now, self.lines.append)
        command = (sys.executable, str(self.folder / "headrace.py"), str(self.folder))
        return RequestQueue(context, ChildRunner(self.folder, None, Path(self.settings.layout.logs), {}, command))

    @contextmanager
    def taking(self, **given):
        queue = self.queue(**given)
        with running_queues([queue]):
            yield queue

    def calls(self) -> list[list[str]]:
        file = self.folder / "calls"
        found = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return [words[words.index("--quiet") + 1 :] for words in found]

    def state(self, request_id: str) -> RequestState | None:
        found = stored_requests(self.settings).get(request_id)
        return None if found is None else found.state

    def stored(self, *requests: Request) -> None:
        file = Path(self.settings.layout.root) / "system/serve/requests.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(requests_text(requests, self.settings.storage))


def until(condition, timeout_s=30.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        threading.Event().wait(0.01)


@pytest.fixture
def pipeline(tmp_path):
    return Pipeline(tmp_path)


def asked(request_id="r1", action=RUN, **more):
    return Request(request_id, action, ANN, NOW, "same", **more)


def test_a_request_runs_once_with_its_id_and_is_recorded(pipeline):
    with pipeline.taking() as queue:
        first = queue.submit("r1", "same", RUN, ANN)
        again = queue.submit("r1", "same", RUN, ANN)
        with pytest.raises(PipelineError) as caught:
            queue.submit("r1", "other", actions.validate(), ANN)
        until(lambda: pipeline.state("r1") is RequestState.COMPLETED)
        later = queue.submit("r1", "same", RUN, ANN)

    assert (first.as_asked(), caught.value.code) == (again.as_asked(), "SERVE.ID_USED")
    assert later.as_asked() == first.as_asked()
    # A name that begins with a hyphen stays the value of its option.
    assert pipeline.calls() == [["run", "--cause=API_CALL", "--request-id=r1", "--refresh=orders", "--refresh=-x"]]
    known = stored_requests(pipeline.settings)
    assert (known["r1"].update_id, result_of(pipeline.settings, known["r1"], known)) == ("u1", {"update_id": "u1"})
    # Not in the event log, whose writer is the update.
    assert not EventReader(pipeline.settings.layout.events).exists
    (event,) = EventReader(pipeline.settings.layout.monitoring(MonitoringFile.OPERATIONS)).events()
    assert (event["event_type"], event["level"]) == ("user_action", "INFO")
    assert event["message"] == "ann asked for: run --refresh=orders --refresh=-x"
    details = json.loads(event["details"])["user_action"]
    assert details == {
        "user": "ann",
        "address": "127.0.0.1",
        "verb": "run",
        "arguments": ["--refresh=orders", "--refresh=-x"],
        "request_id": "r1",
    }


def test_requests_that_wait_for_the_same_are_one_update(pipeline):
    (pipeline.folder / "hold").touch()
    with pipeline.taking() as queue:
        queue.submit("first", "1", RUN, ANN)
        until(lambda: pipeline.state("first") is RequestState.RUNNING)
        for name in ("second", "third"):
            queue.submit(name, name, RUN, ANN)
        # Another lane does not wait.
        queue.submit("check", "check", actions.validate(), ANN)
        until(lambda: pipeline.state("check") is RequestState.RUNNING)
        queue.submit("cancel", "cancel", actions.cancel("second"), ANN)
        until(lambda: pipeline.state("cancel") is RequestState.COMPLETED)
        queue.submit("fourth", "fourth", RUN, ANN)
        (pipeline.folder / "hold").unlink()
        until(lambda: pipeline.state("fourth") is RequestState.COMPLETED)

    known = stored_requests(pipeline.settings)
    assert known["second"].state is RequestState.CANCELED
    assert (known["third"].merged_into, known["fourth"].merged_into) == ("", "third")
    ids = [word for words in pipeline.calls() for word in words if word.startswith("--request-id")]
    assert ids == ["--request-id=first", "--request-id=third"]
    assert result_of(pipeline.settings, known["fourth"], known) == {"update_id": "u1"}


def test_a_request_that_runs_is_stopped_when_somebody_or_the_server_stops(pipeline):
    (pipeline.folder / "hold").touch()
    with pipeline.taking() as queue:
        for name, action in (("one", RUN), ("two", actions.maintain((), (), is_dry_run=True))):
            queue.submit(name, name, action, ANN)
            until(lambda name=name: len(pipeline.calls()) == ("one", "two").index(name) + 1)
        queue.submit("stop", "stop", actions.cancel("one"), ANN)
        until(lambda: pipeline.state("one") is RequestState.CANCELED)
        queue.submit("late", "late", actions.cancel("one"), ANN)
        until(lambda: pipeline.state("late") is RequestState.FAILED)
        queue.submit("next", "next", actions.apply(Path("p.json")), ANN)
        until(lambda: len(pipeline.calls()) == 3)

    known = stored_requests(pipeline.settings)
    assert (known["two"].state, known["next"].state) == (RequestState.CANCELED, RequestState.CANCELED)
    assert known["late"].code == "SERVE.NOT_RUNNING"
    assert pipeline.calls()[1:] == [["maintain", "--dry-run", "--"], ["apply", "--", "p.json"]]


def test_while_another_update_runs_a_request_waits_with_its_id():
    ended = after(begun(asked(), NOW, "here"), Ended(3, {"error": {"code": "LEASE.HELD", "message": "held"}}), NOW)

    assert (ended.state, ended.code, ended.not_before > NOW) == (RequestState.WAITING, "LEASE.HELD", True)
    assert next_to_start([replace(ended, is_recorded=True)], Lane.UPDATE, NOW) is None
    assert next_to_start([replace(ended, is_recorded=True)], Lane.UPDATE, ended.not_before).id == "r1"


@pytest.mark.parametrize(
    ("action", "ended", "state"),
    [
        (RUN, Ended(0, {}), RequestState.COMPLETED),
        (RUN, Ended(1, {"error": {"code": "FLOW.FAILED"}}), RequestState.FAILED),
        (RUN, Ended(-9, None), RequestState.WAITING),
        (actions.apply(Path("p")), Ended(-9, None), RequestState.FAILED),
        (RUN, Ended(130, {}), RequestState.CANCELED),
        # With its id it runs again, and the event log says whether it has run.
        (RUN, Ended(None, {"update_id": "u1"}), RequestState.WAITING),
        (actions.apply(Path("p")), Ended(None, {"update_id": "u1"}), RequestState.COMPLETED),
        (actions.apply(Path("p")), Ended(None, {"error": {"code": "PLAN.DRIFTED"}}), RequestState.FAILED),
        (actions.apply(Path("p")), Ended(None, None), RequestState.LOST),
    ],
)
def test_the_end_of_a_process_is_the_state_of_its_request(action, ended, state):
    assert after(begun(asked(action=action), NOW, "here"), ended, NOW).state is state


@pytest.mark.parametrize("ended", [Ended(-9, None), Ended(1, {"update_id": "u1", "state": "LOST"})])
def test_an_update_that_was_killed_is_started_again_twice(ended):
    """Guards that nobody has to ask again, that each start is an update of its own, and that it ends."""
    request, ids, now = asked(), [], NOW
    while not request.state.has_ended:
        assert next_to_start([replace(request, is_recorded=True)], Lane.UPDATE, now - 0.1) is None or not ids
        ids.append(request.update_request_id)
        request = after(begun(request, now, "here"), ended, now)
        now = request.not_before

    assert (ids[0], request.state) == ("r1", RequestState.FAILED)
    assert [one[:8] for one in ids[1:]] == ["retry-1-", "retry-2-"]
    # As long as the command line takes them, whatever the client has chosen.
    assert len(asked("x" * 100, retries=2).update_request_id) < 100
    stopped = replace(begun(asked(), NOW, "here"), is_stopping=True)
    assert after(stopped, Ended(-15, None), NOW).state is RequestState.CANCELED


def test_after_a_kill_what_waits_is_run_and_what_ran_is_found(pipeline):
    """The states in which a server that was killed can have left its file."""
    lost = asked("lost", actions.apply(Path("p.json")), is_recorded=True)
    dead = replace(begun(lost, NOW, "here"), id="dead", pid=2**22 + 1, process_started_at=1.0)
    pipeline.stored(
        asked("waits"),
        begun(asked("run", actions.run(actions.UpdateSelection()), is_recorded=True), time.time(), "here"),
        begun(lost, NOW, "here"),
        dead,
    )
    with pipeline.taking(now=lambda: NOW + 60):
        until(lambda: all(pipeline.state(name).has_ended for name in ("waits", "run", "lost", "dead")))

    states = [pipeline.state(name).value for name in ("waits", "run", "lost", "dead")]
    assert states == ["COMPLETED", "COMPLETED", "LOST", "LOST"]
    started = sorted(words[2] for words in pipeline.calls())
    assert started == ["--request-id=run", "--request-id=waits"]


def test_the_verb_of_a_killed_server_is_waited_for(pipeline):
    (pipeline.folder / "hold").touch()
    first = pipeline.queue()
    child = first._runner._runner.start_verb(asked().file_name, ["apply", "--", "p.json"])
    pid, started_at = child.process
    running = begun(asked(action=actions.apply(Path("p.json")), is_recorded=True), time.time(), "here")
    pipeline.stored(replace(running, pid=pid, process_started_at=started_at))

    with pipeline.taking():
        (pipeline.folder / "hold").unlink()
        until(lambda: pipeline.state("r1").has_ended)

    assert (pipeline.state("r1"), len(pipeline.calls())) == (RequestState.COMPLETED, 1)
    child.exit_code()


def test_a_second_server_takes_no_requests_while_the_first_has_some(pipeline, monkeypatch):
    monkeypatch.setattr("headrace.project.requests.request_queue._KEEP_S", 0.1)
    monkeypatch.setattr("headrace.project.requests.request_queue._HELD_S", 0.1)
    (pipeline.folder / "hold").touch()
    second = pipeline.queue()
    with pipeline.taking() as first, running_queues([second]):
        first.submit("r1", "same", RUN, ANN)
        with pytest.raises(PipelineError) as caught:
            second.submit("r2", "same", RUN, ANN)
        (pipeline.folder / "hold").unlink()
        until(lambda: not first.book.is_open)
        until(lambda: second.known("r1", "same") is not None)
        second.submit("r2", "same", RUN, ANN)
        until(lambda: pipeline.state("r2") is RequestState.COMPLETED)

    assert (caught.value.code, "here" in caught.value.detail) == ("SERVE.NO_QUEUE", True)
    assert len(pipeline.calls()) == 2


def test_without_requests_nothing_is_written(pipeline):
    with pipeline.taking() as queue:
        assert not queue.book.is_open

    assert not Path(pipeline.settings.layout.root).exists()


def test_a_copy_of_a_storage_runs_nothing_of_the_original(pipeline):
    file = Path(pipeline.settings.layout.root) / "system/serve/requests.json"
    file.parent.mkdir(parents=True)
    file.write_text(requests_text([asked()], "/elsewhere"))

    with pipeline.taking() as queue:
        assert queue.known("r1", "other") is None

    assert (pipeline.calls(), stored_requests(pipeline.settings)) == ([], {})


def test_a_full_queue_takes_no_more(pipeline):
    (pipeline.folder / "hold").touch()
    with pipeline.taking() as queue:
        queue.submit("first", "1", RUN, ANN)
        until(lambda: pipeline.state("first") is RequestState.RUNNING)
        for number in range(MOST_WAITING):
            queue.submit(f"r{number}", "1", actions.create_savepoint(f"s{number}"), ANN)
        with pytest.raises(PipelineError) as caught:
            queue.submit("more", "1", actions.validate(), ANN)
        (pipeline.folder / "hold").unlink()

    assert caught.value.code == "SERVE.QUEUE_FULL"


def test_requests_are_kept_for_days_and_in_a_bounded_number():
    ended = {f"r{n}": asked(f"r{n}", state=RequestState.COMPLETED, ended_at=NOW + n) for n in range(MOST_KEPT + 10)}
    waiting = {"w": asked("w")}

    found = kept({**ended, **waiting}, NOW + 1000)

    assert (len(found), "r9" in found, "r10" in found, "w" in found) == (MOST_KEPT + 1, False, True, True)
    assert set(kept({**ended, **waiting}, NOW + KEPT_S + 10_000)) == {"w"}


def test_what_waited_for_a_day_is_not_run():
    (found,) = expired([asked()], NOW + 86_401)

    assert (found.state, expired([asked()], NOW + 86_399)) == (RequestState.EXPIRED, [])


def test_a_document_from_before_retries_is_read():
    document = json.loads(requests_text([asked()], "s"))
    del document["requests"][0]["retries"]

    assert parse_requests(json.dumps(document).encode())[1] == {"r1": asked()}


def test_the_document_of_requests_is_read_as_it_was_written():
    requests = [asked(), replace(begun(asked("r2"), NOW, "here"), pid=7, process_started_at=1.5)]

    storage, found = parse_requests(requests_text(requests, "/s").encode())

    assert (storage, list(found.values())) == ("/s", requests)
    for content in (b"", b"[]", b"{}", b'{"format": 2}', b'{"format": 1, "storage": "", "requests": [{}]}'):
        with pytest.raises(UnreadableRequests):
            parse_requests(content)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("headrace", "run"), None),
        (("-m", "headrace.worker"), None),
        (("notebook.py",), "SERVE.OTHER_PROGRAM"),
        ((), "SERVE.NOT_RUNNING"),
    ],
)
def test_an_update_is_stopped_in_the_command_line_and_in_no_other_program(pipeline, words, code):
    is_module = words[:1] == ("-m",)
    sleeper = pipeline.folder / ("headrace/worker.py" if is_module else words[0] if words else "headrace")
    if is_module:
        sleeper.parent.mkdir()
        (sleeper.parent / "__init__.py").touch()
    sleeper.write_text("import pathlib, time\npathlib.Path('ready').touch()\ntime.sleep(60)\n")
    command = words if is_module else (str(sleeper), *words[1:])
    child = subprocess.Popen([sys.executable, *command], cwd=pipeline.folder)
    until((pipeline.folder / "ready").exists)
    found = Process.of(child.pid)
    lease = {
        "number": 1,
        "host": "here",
        "python": {"pid": found.pid, "started_at": found.started_at},
        "jvm": None,
        "held_since": NOW,
        "renewed_at": NOW,
        "update_id": "u1" if words else "another",
    }
    pipeline.settings.layout.lease.parent.mkdir(parents=True)
    pipeline.settings.layout.lease.write_text(json.dumps(lease))

    with pytest.raises(PipelineError) if code else nullcontext() as caught:
        stop_update(pipeline.settings, {"HEADRACE_HOST": "here"}, lambda: NOW, "u1")

    if code:
        assert (caught.value.code, child.poll()) == (code, None)
        child.kill()
    expected = signal.SIGKILL if code else signal.SIGTERM
    assert child.wait(30) == -expected


class Died(Exception):
    """The server was killed."""


class DyingFile:
    """The file of the requests; the server dies before or after one of its writes."""

    def __init__(self, *, dies_at: int, keeps: bool) -> None:
        self.content, self.writes_left, self.keeps = b"", dies_at, keeps

    def read(self):
        return False, parse_requests(self.content)[1] if self.content else {}

    def write(self, requests):
        self.writes_left -= 1
        if self.writes_left == 0 and not self.keeps:
            raise Died
        self.content = requests_text(requests, "s").encode()
        if self.writes_left == 0:
            raise Died


@dataclass
class EndedChild:
    """A verb that has done its work at once."""

    process: None = None

    def exit_code(self):
        return 0


@dataclass
class Verbs:
    """Notes what is started."""

    logs: Path
    started: list[list[str]] = field(default_factory=list)

    def start_verb(self, name, words):
        self.started.append(list(words))
        self.logs.mkdir(parents=True, exist_ok=True)
        Printed.of(self.logs, name).out.write_text('{"update_id": "u1"}')
        return EndedChild()


@pytest.mark.long(
    guard="tests/unit/project/test_requests.py::test_after_a_kill_what_waits_is_run_and_what_ran_is_found"
)
@pytest.mark.parametrize("keeps", [True, False])
def test_wherever_the_server_is_killed_an_update_keeps_its_id_and_a_plan_is_applied_once(pipeline, keeps):
    wanted = {"r1": RUN, "r2": RUN, "a1": actions.apply(Path("p.json")), "no": actions.cancel("r2")}
    context = QueueContext(pipeline.settings, {}, "here", str, lambda: NOW, pipeline.lines.append)

    def served(file, verbs):
        """A server, and clients that repeat their requests."""
        book = RequestBook(context.now)
        runner = RequestRunner(context, book, verbs)
        book.open(file)
        runner.recover()
        for name, action in wanted.items():
            book.submit(name, "same", action, ANN)
        for _ in range(10):
            runner.step()
        return {one.id: one.state for one in book.all()}

    for point in range(1, 100):
        file, verbs = DyingFile(dies_at=point, keeps=keeps), Verbs(pipeline.folder / f"logs-{keeps}-{point}")
        try:
            states = served(file, verbs)
        except Died:
            states = served(file, verbs)
        else:
            assert point > 10
            break
        runs = [words for words in verbs.started if words[0] == "run"]
        applied = sum(words[0] == "apply" for words in verbs.started)
        assert {words[2] for words in runs} <= {"--request-id=r1", "--request-id=r2"}
        assert states["r1"] is RequestState.COMPLETED
        assert states["r2"] in (RequestState.CANCELED, RequestState.COMPLETED)
        # It was started at most once; if it was not, the client learns that nobody knows.
        assert (applied, states["a1"]) in ((1, RequestState.COMPLETED), (0, RequestState.LOST))
        assert states["no"].has_ended
