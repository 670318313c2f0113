"""Which folders of a storage are checkpoints of streams, and where their positions in tables are unknown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.storage.checkpoint_folders import find_checkpoints
from headrace.storage.flow_record import FlowRecord, write_record
from headrace.storage.table_positions import read_positions


def checkpoint(root: Path, name: str, *lines: str, batch: int = 0) -> None:
    offsets = root / name / "offsets"
    offsets.mkdir(parents=True, exist_ok=True)
    (offsets / str(batch)).write_text("\n".join(lines or ("v1", "{}", "1")))


def names(root: Path) -> list[str]:
    found = find_checkpoints(str(root))
    assert found.unknown == ()
    return [folder.name for folder in found.found]


@pytest.mark.parametrize("name", ["loads", "waiting", "aside", "failing_rows", "auto_loader", "offsets", "metadata"])
def test_schemas_datasets_and_flows_may_have_any_name(tmp_path, name):
    flow = f"{name}/{name}/{name}"
    write_record(tmp_path / "checkpoints" / flow / "flow.json", FlowRecord(epoch=2))
    for other in ("2", "1", "aside"):
        checkpoint(tmp_path / "checkpoints", f"{flow}/{other}")
    checkpoint(tmp_path / "checkpoints", f"{name}/b/b/0")

    assert sorted(names(tmp_path)) == sorted([f"{name}/b/b/0", f"{flow}/2"])


def test_scripts_may_have_checkpoints_anywhere_in_the_storage(tmp_path):
    for name in ("dbfs/mnt/a", "dbfs/app/loads", "unnamed/s/0", "tables/default/t/_checkpoint", "checkpoints/b/inner"):
        checkpoint(tmp_path, name)
    (tmp_path / "dbfs/app/flow.json").touch()
    (tmp_path / "tables/default/t/_delta_log").mkdir()
    # Its first batch is not planned.
    (tmp_path / "checkpoints/b/offsets").mkdir()
    (tmp_path / "checkpoints/b/metadata").touch()

    assert names(tmp_path) == [
        "b",
        "b/inner",
        "dbfs/app/loads",
        "dbfs/mnt/a",
        "tables/default/t/_checkpoint",
        "unnamed/s/0",
    ]


def test_a_flow_may_have_the_path_of_another_flows_folder(tmp_path):
    for flow in ("s/d/f", "s/d/f/waiting", "s/d/f/1"):
        write_record(tmp_path / "checkpoints" / flow / "flow.json", FlowRecord(epoch=3))
        checkpoint(tmp_path / "checkpoints", f"{flow}/3")

    assert names(tmp_path) == ["s/d/f/1/3", "s/d/f/3", "s/d/f/waiting/3"]


def test_links_are_followed_once(tmp_path):
    root = tmp_path / "storage"
    checkpoint(tmp_path, "elsewhere/a")
    root.mkdir()
    (root / "dbfs").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "back").symlink_to(root)

    assert names(root) == ["dbfs/a"]
    assert names(tmp_path / "no storage") == []


@pytest.mark.parametrize("target", ["nowhere", "link"])
def test_a_folder_that_cannot_be_listed_makes_positions_unknown(tmp_path, target):
    checkpoint(tmp_path, "checkpoints/a")
    (tmp_path / "dbfs").mkdir()
    (tmp_path / "dbfs" / "link").symlink_to(target)

    (reason,) = read_positions(str(tmp_path)).unknown

    assert reason.startswith("dbfs")
    assert names_despite(tmp_path) == ["a"]


def names_despite(root: Path) -> list[str]:
    return [folder.name for folder in find_checkpoints(str(root)).found]


def test_offsets_in_another_format_make_positions_unknown(tmp_path):
    offset = json.dumps({"reservoirId": "t", "reservoirVersion": 3, "index": -1, "isStartingVersion": False})
    checkpoint(tmp_path, "checkpoints/a", "v1", "{}", offset)
    checkpoint(tmp_path, "dbfs/b", "v2", "{}", offset)

    found = read_positions(str(tmp_path))

    assert [(position.reader, position.version) for position in found.known] == [("a", 0)]
    assert found.unknown == ("the position of dbfs/b cannot be read (ValueError)",)
