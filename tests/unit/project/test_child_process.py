"""Updates as child processes: what the command line is, and what each ending means. Shells stand in for updates."""

from __future__ import annotations

import json
import os
import signal
import sys
import time

import pytest

from headrace.model.outcome import UpdateCause
from headrace.project.scheduling.child_process import KEPT_FILES, ChildRunner, Printed, result_of
from headrace.project.scheduling.runner import RunRequest
from headrace.schedules.queue import Ending

REQUEST = RunRequest("schedule-1-ab-1", ("orders", "+gold"), UpdateCause.TABLE_UPDATE, is_continuous=True)


def runner(tmp_path, program):
    environ = {"PATH": "/usr/bin:/bin", "TOKEN": "secret"}
    return ChildRunner(tmp_path, "prod", tmp_path / "logs", environ, (sys.executable, "-c", program))


def ended(update):
    while (result := update.poll()) is None:
        time.sleep(0.01)
    return result


def test_a_child_gets_the_request_on_its_command_line_and_secrets_in_its_environment_alone(tmp_path):
    """Guards the command that is run, without a shell, and that its result is read."""
    program = "import json,os,sys; print(json.dumps({'update_id': 'u1', 'state': 'COMPLETED', 'words': sys.argv[1:]}))"

    result = ended(runner(tmp_path, program).start(REQUEST))

    words = json.loads((tmp_path / "logs" / "schedule-1-ab-1.out.log").read_text())["words"]
    assert (result.ending, result.state, result.update_id) == (Ending.DONE, "COMPLETED", "u1")
    assert words == [
        *("--project", str(tmp_path), "--output", "json", "--quiet", "--profile", "prod"),
        *("run", "--cause=TABLE_UPDATE", "--request-id=schedule-1-ab-1", "--refresh=orders,+gold", "--continuous"),
    ]


def test_a_child_that_is_stopped_gets_sigterm_and_time_to_end(tmp_path):
    """Guards the graceful stop, and that the child is in a session of its own."""
    program = (
        "import os,signal,sys,time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))\n"
        "open('ready', 'w').write(str(os.getsid(0) == os.getpid()))\n"
        "time.sleep(60)"
    )
    update = runner(tmp_path, program).start(REQUEST)
    while not (tmp_path / "ready").exists() or not (tmp_path / "ready").read_text():
        time.sleep(0.01)
    assert update.poll() is None

    update.stop()

    assert (ended(update).ending, (tmp_path / "ready").read_text()) == (Ending.STOPPED, "True")
    update.stop()


@pytest.mark.parametrize(
    ("code", "is_stopped", "document", "expected"),
    [
        (1, False, {"state": "FAILED", "update_id": "u"}, (Ending.FAILED, "FAILED", "last words")),
        (1, True, {"state": "FAILED", "update_id": "u"}, (Ending.FAILED, "FAILED", "last words")),
        (2, False, {"error": {"code": "X.Y", "message": "it is\nwrong"}}, (Ending.OVER, "WRONG", "X.Y: it is wrong")),
        (3, False, {"error": {"code": "LEASE.HELD", "message": "no"}}, (Ending.NOT_STARTED, "BUSY", "LEASE.HELD: no")),
        (4, False, {}, (Ending.OVER, "NOT_APPROVED", "last words")),
        (130, False, {"state": "CANCELED"}, (Ending.OVER, "CANCELED", "last words")),
        (130, True, {"state": "CANCELED"}, (Ending.STOPPED, "CANCELED", "last words")),
        (-signal.SIGKILL, False, {}, (Ending.FAILED, "LOST", "last words")),
        (0, True, {"state": "COMPLETED"}, (Ending.DONE, "COMPLETED", "")),
    ],
)
def test_exit_codes_decide_whether_an_update_is_started_again(tmp_path, code, is_stopped, document, expected):
    """Guards each exit code of the command line: a wrong project is not retried, and a held lease is no failure."""
    printed = Printed.of(tmp_path, "r")
    printed.out.write_text(json.dumps(document))
    printed.errors.write_text("first\nlast words\n\n")

    result = result_of(code, printed, is_stopped=is_stopped)

    assert (result.ending, result.state, result.message) == expected


def test_output_that_is_no_document_is_no_obstacle(tmp_path):
    """Guards children that were killed while they printed."""
    printed = Printed.of(tmp_path, "r")
    printed.out.write_text('{"state": "COMP')

    assert result_of(-9, printed, is_stopped=False).message == "the process was ended by signal 9"


def test_what_old_updates_printed_is_removed(tmp_path):
    """Guards the disk: a schedule of each minute would leave thousands of files a day."""
    starter, logs = runner(tmp_path, ""), tmp_path / "logs"
    logs.mkdir()
    for number in range(KEPT_FILES + 6):
        file = logs / f"schedule-{number}-x-1.out.log"
        file.touch()
        os.utime(file, (number, number))
    (logs / "spark.log").touch()
    os.utime(logs / "spark.log", (0, 0))

    ended(starter.start(REQUEST))

    left = {file.name for file in logs.iterdir()}
    assert len(left) == KEPT_FILES + 3
    assert {"spark.log", "schedule-1-ab-1.out.log", "schedule-6-x-1.out.log"} < left
