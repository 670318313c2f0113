"""The pages of the reference that are written by hand name everything that is stored and patched."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace.events.log_tables import LOG_TABLES
from headrace.events.schema import SCHEMA
from headrace.model.names import Naming, QualifiedName
from headrace.settings.storage import MonitoringFile, StorageLayout
from headrace.storage.flow_record import FlowRecord

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"


def words_of(page: str) -> set[str]:
    """Everything on a page that is written as code, and the words in it."""
    code = re.findall(r"`([^`]+)`", (REFERENCE / page).read_text(encoding="utf-8"))
    return {*code, *(word for text in code for word in re.split(r"[\s.=]+", text))}


@pytest.mark.parametrize(
    "names",
    [SCHEMA.names, FlowRecord().to_json(), LOG_TABLES],
    ids=["events", "flow.json", "views"],
)
def test_every_column_key_and_view_is_on_the_storage_page(names):
    assert set(names) - words_of("storage.md") == set()


def test_every_path_is_on_the_storage_page():
    layout, name = StorageLayout("/s"), QualifiedName("<dataset>")
    paths = [layout.table(Naming(schema="<schema>"), name), layout.quarantine(Naming(schema="<schema>"), name)]
    paths += [layout.events, layout.logs, str(layout.lease), *map(layout.monitoring, MonitoringFile)]

    assert {path.removeprefix("/s/") for path in paths} - words_of("storage.md") == set()


def test_every_patched_method_is_on_the_patches_page():
    # Read as text: the module needs pyspark, and this test no JVM.
    source = (ROOT / "src" / "headrace" / "spark" / "startup" / "patches.py").read_text(encoding="utf-8")
    listed = re.findall(r"_(?:ACTIONS|WRITES) = \((.*?)\)", source, re.DOTALL)
    patched = {name for names in listed for name in re.findall(r'"(\w+)"', names)}
    patched |= set(re.findall(r'_wrap\(\w+, "(\w+)"', source))

    assert len(patched) > 20
    assert patched - words_of("patches.md") == set()


def test_every_test_named_on_the_patches_page_exists():
    named = re.findall(r"`(tests/[\w/]+\.\w+)`", (REFERENCE / "patches.md").read_text(encoding="utf-8"))

    assert [name for name in named if not (ROOT / name).is_file()] == []
    assert named
