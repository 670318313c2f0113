"""What users test with: comparing rows, dying at a point, a plugin that costs nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import date
from decimal import Decimal

import pytest

from headrace.autoloader.discovery import STABLE_AFTER_S
from headrace.runtime.failpoints import Failpoint, no_failpoint
from headrace.settings.load import load_settings
from headrace.testing import Crashed, assert_rows, difference
from headrace.testing.crash import CrashFailpoint
from headrace.testing.driver import Pipeline
from headrace.testing.folder import ProjectFolder
from headrace.testing.plugin import pytest_assertrepr_compare
from headrace.testing.rows import SortedRows

NAN = float("nan")


def test_rows_are_compared_in_any_order_and_with_their_counts():
    rows = [{"id": 1, "x": None}, {"id": 2, "x": NAN}, {"id": 2, "x": NAN}]

    assert_rows(rows, rows[::-1])
    assert difference(rows, rows[:2]).splitlines()[1] == "  unexpected  id=2, x=nan"


def test_only_cells_that_differ_are_shown():
    found = [{"id": 1, "amount": 3, "day": date(2024, 1, 1)}, {"id": 2, "amount": 5, "day": None}]
    expected = [{"id": 2, "amount": 5, "day": None}, {"id": 1, "amount": -3, "day": date(2024, 1, 1)}]

    assert difference(found, expected).splitlines() == [
        "rows differ: 2 found, 2 expected",
        "  differs     id=1",
        "    amount: found 3, expected -3",
    ]


def test_rows_are_matched_by_their_key():
    found = [{"name": "x", "id": 1}, {"name": "y", "id": 2}]

    text = difference(found, [{"name": "x", "id": 2}, {"name": "z", "id": 3}], key=["id"])

    assert text.splitlines() == [
        "rows differ: 2 found, 2 expected",
        "  unexpected  name='x', id=1",
        "  differs     id=2",
        "    name: found 'y', expected 'x'",
        "  missing     name='z', id=3",
    ]


def test_a_column_missing_on_one_side_is_a_difference():
    assert "x: found 1, expected (no such column)" in difference([{"id": 1, "x": 1}], [{"id": 1}])
    assert "x: found (no such column), expected None" in difference([{"id": 1}], [{"id": 1, "x": None}])


def test_the_row_order_is_compared_on_request():
    rows = [{"id": 1}, {"id": 2}]

    with pytest.raises(AssertionError, match="id: found 1, expected 2"):
        assert_rows(rows, rows[::-1], ordered=True)
    assert "missing     id=2" in difference(rows[:1], rows, ordered=True)
    assert not difference(rows, rows, ordered=True)


@pytest.mark.parametrize(("one", "other"), [(1, True), (1, "1"), ({"a": 1}, {"a": 2}), ([1], [1, 2]), (None, 0)])
def test_values_of_different_types_or_content_differ(one, other):
    assert difference([{"x": one}], [{"x": other}])


def test_equal_numbers_of_different_types_are_equal_even_in_nested_rows():
    assert not difference([{"x": Decimal("1.0"), "y": ({"z": 1},)}], [{"x": 1, "y": [{"z": 1.0}]}])


def test_a_long_list_of_differences_is_truncated():
    assert difference([{"id": n} for n in range(30)], []).endswith("and 10 more")


def test_sorted_rows_do_not_depend_on_the_input_order():
    rows = [{"a": 2, "b": None}, {"a": None, "b": 1}, {"a": 2, "b": "x"}, {"a": {"c": NAN}, "b": 1}]

    assert SortedRows(rows) == SortedRows(rows[::-1])
    assert SortedRows(rows)[0]["a"] is None


def test_pytest_shows_the_difference_between_rows():
    rows = SortedRows([{"id": 1, "x": 1}])

    assert pytest_assertrepr_compare("==", rows, [{"id": 1, "x": 2}])[-1] == "    x: found 1, expected 2"
    assert pytest_assertrepr_compare("==", [{"id": 1, "x": 2}], rows)[-1] == "    x: found 1, expected 2"
    assert pytest_assertrepr_compare("==", [1], [2]) is None
    assert pytest_assertrepr_compare("in", rows, [rows]) is None


def test_a_crash_failpoint_fires_at_its_point_and_at_every_later_one():
    failpoint = CrashFailpoint(Failpoint.WRITTEN, skip=1)
    failpoint(Failpoint.COUNTED)
    failpoint(Failpoint.WRITTEN)

    for point in (Failpoint.WRITTEN, Failpoint.COUNTED):
        with pytest.raises(Crashed):
            failpoint(point)
    assert failpoint.has_fired


def test_failpoints_do_nothing_by_default():
    no_failpoint(Failpoint.WRITTEN)
    CrashFailpoint()(Failpoint.WRITTEN)


def test_the_plugin_loads_neither_spark_nor_the_engine():
    code = (
        "import sys, headrace.testing.plugin, headrace.testing\n"
        "print([name for name in ('pyspark', 'pandas', 'deltalake', 'pyarrow') if name in sys.modules])\n"
    )

    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)

    assert shown.stdout.strip() == "[]"


def test_a_copy_of_a_project_has_no_storage_of_any_profile(tmp_path):
    project = tmp_path / "shop"
    for folder in ("storage/system/events", "storage-sample/system/events", "transformations", "system"):
        (project / folder).mkdir(parents=True)
    text = "name: shop\nprofile: sample\nprofiles:\n  sample: {storage: storage-sample}\n  production: {}\n"
    (project / "pipeline.yml").write_text(text, encoding="utf-8")
    (tmp_path / "scratch").mkdir()

    copy = Pipeline.nearest(project, tmp_path / "scratch")

    assert sorted(entry.name for entry in copy.folder.iterdir()) == ["pipeline.yml", "system", "transformations"]


def test_a_landed_file_is_already_stable_so_that_no_update_waits_for_it(tmp_path):
    (tmp_path / "pipeline.yml").write_text("name: shop\n")
    folder = ProjectFolder(load_settings(tmp_path / "pipeline.yml", environ={}), copied=False)

    file = folder.land("landing/1.json", [{"id": 1}])

    assert time.time() - file.stat().st_mtime > STABLE_AFTER_S
