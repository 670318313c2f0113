"""What schedules watch, on real folders, tables and event logs."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from headrace.project.scheduling.observers import FileObserver, TableObserver
from headrace.schedules.definition import When


class Clock:
    def __init__(self):
        self.at = 1000.0

    def __call__(self):
        return self.at


def written(file, text="x", mtime=None):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    if mtime is not None:
        os.utime(file, (mtime, mtime))


def test_new_and_rewritten_files_are_news_and_deleted_ones_are_not(tmp_path):
    """Guards file arrival: also in subfolders; hidden and empty files are not there yet."""
    clock = Clock()
    observer = FileObserver(f"{tmp_path}/in/**", {}, clock)
    written(tmp_path / "in" / "2026" / "a.json")
    first = observer.look("")
    written(tmp_path / "in" / "_tmp.json")
    written(tmp_path / "in" / "empty.json", "")
    clock.at = 1010.0
    same = observer.look(first.token)
    written(tmp_path / "in" / "b.json")
    second = observer.look(same.token)
    (tmp_path / "in" / "2026" / "a.json").unlink()
    deleted = observer.look(second.token)
    written(tmp_path / "in" / "b.json", "longer")
    rewritten = observer.look(second.token)

    assert [one.is_new for one in (first, same, second, deleted, rewritten)] == [True, False, True, False, True]
    assert (same.changed_at, second.changed_at) == (1000.0, 1010.0)


def test_a_new_scheduler_knows_by_the_token_whether_files_have_changed(tmp_path):
    """Guards restarts: what arrived meanwhile is news, and nothing is if nothing did."""
    written(tmp_path / "a.json")
    token = FileObserver(str(tmp_path), {}, Clock()).look("").token
    unchanged = FileObserver(str(tmp_path), {}, Clock()).look(token)
    written(tmp_path / "b.json")
    changed = FileObserver(str(tmp_path), {}, Clock()).look(token)

    assert (unchanged.is_new, changed.is_new) == (False, True)


def test_a_change_between_two_looks_is_not_taken_for_what_has_fired(tmp_path):
    """Guards the moment between the decision and the next look."""
    observer = FileObserver(str(tmp_path), {}, Clock())
    written(tmp_path / "a.json")
    fired = observer.look("").token
    written(tmp_path / "b.json")

    assert observer.look(fired).is_new
    (tmp_path / "b.json").unlink()
    assert not observer.look(fired).is_new


def test_a_path_is_mapped_as_auto_loader_maps_it(tmp_path):
    """Guards the setting paths, which flows obey too."""
    written(tmp_path / "landing" / "a.json")

    assert FileObserver("dbfs:/landing", {"dbfs:/": f"{tmp_path}/"}, Clock()).look("").is_new


def rows(path, count=1, mode="append"):
    write_deltalake(str(path), pa.table({"id": list(range(count))}), mode=mode)


@pytest.mark.parametrize(("when", "expected"), [(When.ANY, [True, True, False]), (When.ALL, [False, True, False])])
def test_tables_are_news_when_any_or_all_of_them_have_new_rows(tmp_path, when, expected):
    """Guards table updates: with tables that do not exist yet."""
    paths = {name: str(tmp_path / name) for name in ("orders", "customers")}
    observer = TableObserver(lambda: paths, when, Clock())
    rows(tmp_path / "orders")
    found = [observer.look("")]
    rows(tmp_path / "customers")
    found.append(observer.look(found[0].token if when is When.ANY else ""))
    found.append(observer.look(found[-1].token))

    assert [one.is_new for one in found] == expected


def test_commits_that_change_no_rows_are_no_news_and_another_table_is(tmp_path):
    """Guards compaction, after which nothing is to be done, and tables that were made again."""
    path = tmp_path / "orders"
    observer = TableObserver(lambda: {"orders": str(path)}, When.ANY, Clock())
    rows(path)
    rows(path)
    seen = observer.look("").token
    DeltaTable(str(path)).optimize.compact()
    compacted = observer.look(seen)
    rows(path)
    later = observer.look(seen)
    path.rename(tmp_path / "old")
    rows(path)
    other = observer.look(later.token)

    assert (compacted.is_new, later.is_new, other.is_new) == (False, True, True)


def test_without_tables_nothing_is_observed():
    """Guards a dataset that reads no Delta table: its schedule does not fire for ever."""
    assert TableObserver(dict, When.ANY, Clock()).look("") is None
