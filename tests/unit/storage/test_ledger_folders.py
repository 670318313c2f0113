"""Where the ledgers of a flow are: next to it, or next to a view that it reads."""

from __future__ import annotations

from contextlib import closing

import pytest

from headrace.autoloader.ledger.ledger import Ledger
from headrace.autoloader.ledger.positions import Offset, lost_since
from headrace.storage.positions import ledger_folders


def ledger_in(root):
    with closing(Ledger.create(root / "auto_loader" / "0" / "_ledgers")) as ledger:
        return Offset(ledger.id, 0).to_json()


@pytest.mark.parametrize("flow", ["default/current/current", "main/sales/current/current"])
@pytest.mark.parametrize("reader", ["default/changes/changes", "main/sales/changes/changes", "default/current/other"])
def test_a_ledger_of_another_flow_or_view_is_found_behind_the_own_ones(tmp_path, flow, reader):
    checkpoints = tmp_path / "checkpoints"
    own, others = ledger_in(checkpoints / flow), ledger_in(checkpoints / reader)

    folders = ledger_folders(checkpoints / flow)

    assert [lost_since(folders, offset, lambda _: True) for offset in (own, others)] == [[], []]
    assert next(iter(folders)).is_relative_to(checkpoints / flow)
    assert lost_since(folders, {"ledger": "0" * 32, "number": 0}, lambda _: True) is None
