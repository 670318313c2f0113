"""Where things are in the storage."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import PipelineError
from headrace.model.names import Naming
from headrace.settings.storage import StorageLayout, path_safe, resolve_storage

ROOT = Path("/project")
NAMING = Naming(schema="sales", catalog="main")
LAYOUT = StorageLayout("/data")
NAMES = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.parametrize(
    ("value", "resolved"),
    [
        ("storage", "/project/storage"),
        ("../lake/", "/lake"),
        ("/data/./x", "/data/x"),
        ("file:///data/a%20b", "/data/a b"),
        ("file:/data", "/data"),
        ("FILE://localhost/data", "/data"),
        ("s3://bucket/lake//shop/", "s3a://bucket/lake/shop"),
    ],
)
def test_storage_resolves_to_an_absolute_path_or_a_canonical_uri(value, resolved):
    assert resolve_storage(value, ROOT) == resolved


@pytest.mark.parametrize("uri", ["abfss://c@a.dfs.core.windows.net/x", "gs://b", "ABFS://x"])
def test_remote_storage_is_refused(uri):
    with pytest.raises(PipelineError) as raised:
        resolve_storage(uri, ROOT)

    assert raised.value.code == "STORAGE.NOT_LOCAL"


@pytest.mark.parametrize(
    ("uri", "resolved"),
    [
        ("abfs://lake@account.dfs.core.windows.net/shop/", "abfss://lake@account.dfs.core.windows.net/shop"),
        ("gs://lake/shop", "gs://lake/shop"),
    ],
)
def test_a_setting_lets_an_untried_storage_be_tried(uri, resolved):
    assert resolve_storage(uri, ROOT, allow_untried=True) == resolved


@pytest.mark.parametrize("scheme", ["dbfs", "wasbs", "http"])
def test_an_unknown_storage_scheme_is_refused_by_name(scheme):
    with pytest.raises(PipelineError) as raised:
        resolve_storage(f"{scheme}://x/y", ROOT)

    assert (raised.value.code, raised.value.params["scheme"]) == ("STORAGE.UNKNOWN_SCHEME", scheme)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "  ",
        "s3://bucket",
        "s3://key:secret@bucket/x",
        "${env:X}/y",
        "file:x",
        "file://host/x",
        "file://[",
        "file:///a%00",
        "a%20b",
        "file:///a%2520b",
    ],
)
def test_an_invalid_storage_path_is_refused(value):
    with pytest.raises(PipelineError) as raised:
        resolve_storage(value, ROOT)

    assert raised.value.code == "STORAGE.INVALID"


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("orders", "/data/tables/sales/orders"),
        ("main.sales.orders", "/data/tables/sales/orders"),
        ("hr.people", "/data/tables/hr/people"),
        ("other.hr.people", "/data/tables/other/hr/people"),
        ("other.sales.orders", "/data/tables/other/sales/orders"),
    ],
)
def test_table_paths_follow_the_storage_layout(name, path):
    canonical = NAMING.canonical(name)

    assert LAYOUT.table(NAMING, canonical) == path
    assert LAYOUT.quarantine(NAMING, canonical) == f"{path}_quarantine"


def test_checkpoints_and_state_of_a_flow_share_a_folder():
    orders = NAMING.canonical("orders")

    assert LAYOUT.checkpoint(NAMING, orders, "fill", 3) == "/data/checkpoints/sales/orders/fill/3"
    assert LAYOUT.flow_state(NAMING, orders, "fill") == "/data/checkpoints/sales/orders/fill/flow.json"


def test_system_and_lease_paths_follow_the_storage_layout():
    assert (LAYOUT.events, LAYOUT.logs, str(LAYOUT.lease)) == (
        "/data/system/events",
        "/data/system/logs",
        "/data/lease.json",
    )


@pytest.mark.parametrize("flow", ["orders", "fill_orders-2", "main.sales.orders"])
def test_a_path_safe_flow_name_is_unchanged(flow):
    assert path_safe(flow) == flow


@given(NAMES)
def test_every_flow_name_becomes_a_single_safe_path_segment(flow):
    assert re.fullmatch(r"(?!\.)[A-Za-z0-9_.~-]{1,200}", path_safe(flow))


@given(NAMES, NAMES)
def test_different_flow_names_become_different_paths(first, second):
    assert (path_safe(first) == path_safe(second)) == (first == second)


def test_different_long_flow_names_become_different_paths():
    assert path_safe("a" * 300) != path_safe("a" * 301)
