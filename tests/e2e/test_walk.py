"""The page from requirements to a repaired pipeline: each of its commands, in a shell and one session."""

from __future__ import annotations

import pytest
from tests.walk import Shell, requirements, steps

pytestmark = pytest.mark.spark
GUARDS = (
    "tests/unit/cli/test_walk.py::test_the_requirements_of_the_walk_give_the_design_that_it_shows",
    "tests/spark/test_designs.py::test_eight_pairs_run_on_their_sample",
    "tests/unit/doctor/test_storage_faults.py::test_the_command_for_a_torn_checkpoint_repairs_it",
)


@pytest.mark.long(guard=GUARDS)
def test_ten_commands_lead_from_requirements_to_a_repaired_pipeline(headrace_session, tmp_path):
    (tmp_path / "requirements.yml").write_text(requirements(), encoding="utf-8")
    shell, outputs, codes = Shell(tmp_path), [], []

    for step in steps():
        code, output = shell.run(step.command)
        codes.append(code)
        outputs.append(output)
        shown = [" ".join(line.split()) for line in output.splitlines()]
        # A line of the page may leave out the last columns.
        missing = [line for line in step.lines if not any(one.startswith(" ".join(line.split())) for one in shown)]
        assert missing == [], f"step {step.number}:\n{output}"

    # The doctor exits with 1 while there is an error.
    assert codes == [0, 0, 0, 0, 0, 0, 1, 0, 0, 0]
    assert outputs[4] == outputs[9]
