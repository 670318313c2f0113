"""What `headrace maintain` prints, and its exit code."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.plan.maintenance import ActionState


def test_actions_are_printed_by_table_with_figures_before_and_after(cli: Any) -> None:
    code, out, _ = cli("maintain", "--dry-run")

    assert code == 0
    assert out.splitlines() == [
        "orders",
        "  compact     300 small files",
        "              300 files, 8.6 MiB -> about 2 files, 7.6 MiB",
        "  vacuum      skipped: busy\\x1b[31m",
        "1 action planned; 1 skipped",
    ]


@pytest.mark.parametrize(("state", "code"), [(ActionState.SKIPPED, 0), (ActionState.FAILED, 1)])
def test_a_failed_action_fails_the_command(cli: Any, state: ActionState, code: int) -> None:
    cli.project.maintenance_state = state

    found, out, _ = cli("--output", "json", "maintain")

    assert (found, [action["state"] for action in json.loads(out)]) == (code, ["PLANNED", state.value])


def test_an_unknown_task_is_refused_with_the_known_ones(cli: Any) -> None:
    code, _, err = cli("maintain", "--only", "vacum")

    assert code == 2
    assert "MAINTENANCE.UNKNOWN_TASK" in err
    assert "retention, compact, cluster, vacuum, checkpoint" in err
