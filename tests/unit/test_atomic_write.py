"""A file that is written atomically is whole, and its folder holds nothing else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.atomic_write import create_file, replace_file


def test_a_new_file_replaces_the_previous_one(tmp_path):
    for text in ("old and long", "new"):
        replace_file(tmp_path / "file", text)

    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"file": "new"}


def test_a_failed_write_keeps_the_old_file_and_leaves_no_temporary_file(tmp_path):
    replace_file(tmp_path / "file", "old")

    with pytest.raises(UnicodeEncodeError):
        replace_file(tmp_path / "file", "half \ud800")

    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"file": "old"}


def test_only_one_of_several_concurrent_writers_creates_a_file(tmp_path):
    with ThreadPoolExecutor(8) as threads:
        created = list(threads.map(lambda number: create_file(tmp_path / "file", str(number)), range(8)))

    assert [str(number) for number, done in enumerate(created) if done] == [(tmp_path / "file").read_text()]
