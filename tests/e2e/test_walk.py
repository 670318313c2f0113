"""The page from requirements to a repaired pipeline: each of its commands, as a reader types them into a shell."""

from __future__ import annotations

import os
import subprocess

import pytest
from tests.command_line import PROGRAM
from tests.walk import requirements, steps

pytestmark = pytest.mark.spark
GUARDS = (
    "tests/unit/cli/test_walk.py::test_the_requirements_of_the_walk_give_the_design_that_it_shows",
    "tests/spark/test_designs.py::test_eight_pairs_run_on_their_sample",
    "tests/unit/doctor/test_storage_faults.py::test_the_command_for_a_torn_checkpoint_repairs_it",
)


@pytest.mark.long(guard=GUARDS)
def test_ten_commands_lead_from_requirements_to_a_repaired_pipeline(tmp_path):
    (tmp_path / "requirements.yml").write_text(requirements(), encoding="utf-8")
    environ = {**os.environ, "PATH": f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}"}
    folder, place, outputs, codes = str(tmp_path), tmp_path / "folder", [], []

    for step in steps():
        script = f"{step.command}\ncode=$?\npwd > '{place}'\nexit $code"
        done = subprocess.run(
            ["bash", "-c", script], cwd=folder, env=environ, capture_output=True, encoding="utf-8", check=False
        )
        folder = place.read_text(encoding="utf-8").strip()
        codes.append(done.returncode)
        outputs.append(done.stdout)
        shown = [" ".join(line.split()) for line in done.stdout.splitlines()]
        # A line of the page may leave out the last columns.
        missing = [line for line in step.lines if not any(one.startswith(" ".join(line.split())) for one in shown)]
        assert missing == [], f"step {step.number}:\n{done.stdout}\n{done.stderr}"

    # The doctor exits with 1 while there is an error.
    assert codes == [0, 0, 0, 0, 0, 0, 1, 0, 0, 0]
    assert outputs[4] == outputs[9]
