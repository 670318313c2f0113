"""The page about recovering streams: each of its commands, and what they print, in one session."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.walk import Shell, commands

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "recover.md"
GUARDS = (
    "tests/unit/cli/test_walk.py::test_the_recovery_page_shows_a_command_for_each_output",
    "tests/unit/doctor/test_storage_faults.py::test_the_command_for_a_torn_checkpoint_repairs_it",
    "tests/spark/test_savepoints.py::test_an_interrupted_restore_is_finished_by_the_next_update",
)
# Exits with 1 if it finds something.
FINDS = "headrace checkpoints verify"


@pytest.mark.long(guard=GUARDS)
def test_each_command_of_the_page_does_what_the_page_shows(headrace_session, tmp_path):
    shell = Shell(tmp_path)

    for command in commands(PAGE):
        code, output = shell.run(command.text)
        assert code == (1 if command.text == FINDS and "error[" in output else 0), (command.text, output)
        assert command.missing(output) == [], (command.text, output)
