"""Which versions `headrace diff` compares, and by which key; what cannot be compared is refused by name."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from headrace.cdc.merge_keys import MERGE_KEYS_PROPERTY
from headrace.errors import PipelineError, Problems
from headrace.model.comparable_types import Atomic, ComparedColumn
from headrace.model.table_diff import DiffRequest, KeyOrigin
from headrace.project.inspection.diff_keys import DiffKey, diff_key
from headrace.project.inspection.diff_versions import other_settings, versions_to_read
from headrace.settings.load import nearest_settings

SETTINGS = "name: shop\nprofiles:\n  prod: {storage: production}\n"


@pytest.fixture
def shop(tmp_path):
    """The settings of a pipeline with a table of three appends and a commit of properties, and a view."""
    (tmp_path / "pipeline.yml").write_text(SETTINGS)
    for storage, commits in (("storage", 3), ("production", 2)):
        path = str(tmp_path / storage / "tables" / "default" / "orders")
        for number in range(commits):
            write_deltalake(path, pa.table({"id": pa.array([number], pa.int64())}), mode="append")
    DeltaTable(str(tmp_path / "storage/tables/default/orders")).alter.set_table_properties(
        {"delta.appendOnly": "false"}
    )
    view = tmp_path / "storage" / "system" / "views" / "default" / "recent.json"
    view.parent.mkdir(parents=True)
    view.write_text(json.dumps({"format": 1, "query": "SELECT 1"}))
    return nearest_settings(tmp_path, profile=None, overrides={}, environ={})


def versions(settings, request):
    found = versions_to_read(settings, other_settings(settings, request, {}), request)
    return [(side.settings.profile, side.version) for side in found]


@pytest.mark.parametrize(
    ("request_of", "expected"),
    [
        ({}, [(None, 1), (None, 3)]),
        ({"versions": (1,)}, [(None, 1), (None, 3)]),
        ({"versions": (3, 0)}, [(None, 3), (None, 0)]),
        ({"other_profile": "prod"}, [(None, 3), ("prod", 1)]),
        ({"other_profile": "prod", "versions": (2, 0)}, [(None, 2), ("prod", 0)]),
        ({"other_profile": "prod", "versions": (2,)}, [(None, 2), ("prod", 1)]),
        ({"other_project": "."}, [(None, 3), (None, 3)]),
    ],
)
def test_versions_that_are_not_given_are_the_newest_and_the_one_before_the_last_change(
    shop, monkeypatch, request_of, expected
):
    monkeypatch.chdir(shop.root)

    assert versions(shop, DiffRequest("ORDERS", **request_of)) == expected


@pytest.mark.parametrize(
    ("request_of", "code"),
    [
        ({"name": "ordres"}, "DIFF.UNKNOWN"),
        ({"name": "../orders"}, "DIFF.UNKNOWN"),
        ({"name": "Recent"}, "DIFF.VIEW"),
        ({"name": "orders", "versions": (4,)}, "DIFF.NO_VERSION"),
        ({"name": "orders", "versions": (0, 2, 3)}, "DIFF.THREE_VERSIONS"),
        ({"name": "orders", "other_project": "missing"}, "CLI.NO_FOLDER"),
    ],
)
def test_what_cannot_be_compared_is_refused_by_name(shop, request_of, code):
    with pytest.raises(PipelineError) as refused:
        versions(shop, DiffRequest(**request_of))

    assert refused.value.code == code


def test_a_profile_that_does_not_exist_is_refused(shop):
    with pytest.raises(Problems, match="profile"):
        versions(shop, DiffRequest("orders", other_profile="missing"))


def test_versions_that_left_the_log_are_refused_with_the_range(shop):
    log = Path(shop.layout.root, "tables/default/orders/_delta_log")
    DeltaTable(str(log.parent)).create_checkpoint()
    for version in (0, 1, 2):
        (log / f"{version:020}.json").unlink()

    with pytest.raises(PipelineError) as gone:
        versions(shop, DiffRequest("orders", (1,)))
    with pytest.raises(PipelineError) as alone:
        versions(shop, DiffRequest("orders"))

    assert (gone.value.code, gone.value.params["earliest"]) == ("DIFF.VERSION_GONE", "3")
    assert alone.value.code == "DIFF.ONE_VERSION"


COLUMNS = tuple(
    ComparedColumn(names, Atomic("long"))
    for names in (("id", "id"), ("old", "new"), ("a,b", "a,b"), ("__START_AT",) * 2)
)


def merged(keys, scd_type):
    return {MERGE_KEYS_PROPERTY: json.dumps({"keys": keys, "scd_type": scd_type})}


@pytest.mark.parametrize(
    ("requested", "properties", "expected"),
    [
        ([], {}, DiffKey()),
        (["ID"], merged(["new"], "1"), DiffKey((0,), KeyOrigin.OPTION)),
        (["old, id", "id"], {}, DiffKey((1, 0), KeyOrigin.OPTION)),
        (["A,B"], {}, DiffKey((2,), KeyOrigin.OPTION)),
        ([], merged(["id"], "1"), DiffKey((0,), KeyOrigin.AUTO_CDC)),
        ([], merged(["id"], "2"), DiffKey((0, 3), KeyOrigin.AUTO_CDC)),
        ([], merged(["id"], "bitemporal"), DiffKey()),
        ([], {MERGE_KEYS_PROPERTY: "unknown"}, DiffKey()),
    ],
)
def test_the_key_is_the_one_requested_or_that_of_change_data_capture(requested, properties, expected):
    assert diff_key("orders", requested, COLUMNS, properties) == expected


def test_a_key_of_which_a_version_has_no_column_is_refused():
    with pytest.raises(PipelineError) as refused:
        diff_key("orders", ["id,other"], COLUMNS, {})

    assert (refused.value.code, refused.value.params["column"]) == ("DIFF.NO_KEY_COLUMN", "other")
