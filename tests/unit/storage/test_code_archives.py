"""The project's code as updates ran it, kept in the storage."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from headrace.project.update.code_version import archive_code, code_digest, code_files
from headrace.settings.load import load_settings
from headrace.settings.storage import StorageLayout
from headrace.storage.code_archives import CodeArchives, code_archives
from headrace.storage.flow_record import FlowRecord, read_record, write_record
from headrace.stores.cloud_store import CloudStore
from headrace.stores.object_path import ObjectPath

FILES = {"pipeline.yml": b"name: shop\n", "transformations/a.py": b"x = 1\n", "../lib/b.py": b"y = 2\n"}


@pytest.fixture
def archives(tmp_path):
    return code_archives(StorageLayout(str(tmp_path)))


def archives_of(settings):
    return code_archives(settings.layout)


def test_a_storage_in_a_bucket_has_archives_too():
    archives = CodeArchives(ObjectPath("s3a://lake", "shop/system/code", CloudStore("s3a://lake", MemoryStore())))

    stored = archives.store("d1", FILES), archives.store("d1", {}), archives.store("d2", {"a.py": b"x"})
    archives.remove_others({"d2"})

    assert stored == (True, False, True)
    assert (archives.files("d1"), archives.files("d2")) == (None, {"a.py": b"x"})


def test_an_archive_is_written_once_and_read_as_it_was(archives, tmp_path):
    first, again = archives.store("d1", FILES), archives.store("d1", {"other.py": b""})

    assert (first, again) == (True, False)
    assert archives.files("d1") == {
        "pipeline.yml": b"name: shop\n",
        "transformations/a.py": b"x = 1\n",
        "_outside/lib/b.py": b"y = 2\n",
    }
    assert (tmp_path / "system/code/d1.zip").stat().st_mode & 0o777 == 0o600
    assert [file.name for file in (tmp_path / "system/code").iterdir()] == ["d1.zip"]


def test_archives_of_the_same_files_are_the_same_bytes(archives, tmp_path):
    archives.store("d1", FILES)
    archives.store("d2", dict(reversed(FILES.items())))

    assert (tmp_path / "system/code/d1.zip").read_bytes() == (tmp_path / "system/code/d2.zip").read_bytes()


def test_a_missing_or_damaged_archive_is_not_known(archives, tmp_path):
    archives.store("d1", FILES)
    (tmp_path / "system/code/d1.zip").write_bytes(b"damaged")

    assert (archives.files("d1"), archives.files("d2")) == (None, None)


@pytest.fixture
def shop(tmp_path):
    """The settings of a project that also has what is no code of it."""
    texts = {
        "pipeline.yml": "name: shop\nsecrets: {directory: vault}\n",
        ".env": "PASSWORD=x",
        "vault/token.py": "x",
        "transformations/a.py": "import lib",
        "lib.py": "LIMIT = 1",
        "env/pyvenv.cfg": "",
        "env/bin/tool.py": "x",
        ".git/hook.py": "x",
        "storage/system/x.py": "x",
        "data/rows.json": "{}",
    }
    for path, text in texts.items():
        file = tmp_path / "shop" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return load_settings(tmp_path / "shop" / "pipeline.yml", profile=None, environ={})


def test_only_code_and_settings_are_archived(shop):
    digest = archive_code(shop)

    assert digest == code_digest(shop)
    assert archives_of(shop).files(digest) == code_files(shop)
    assert list(code_files(shop)) == ["lib.py", "pipeline.yml", "transformations/a.py"]


def test_archives_stay_while_a_flow_ran_with_them_last(shop):
    first = archive_code(shop)
    record = Path(shop.storage) / "checkpoints/default/a/a/flow.json"
    write_record(record, FlowRecord(flow="a", dataset="a", code=first))
    (shop.root / "lib.py").write_text("LIMIT = 2")
    second = archive_code(shop)
    (shop.root / "lib.py").write_text("LIMIT = 3")
    third = archive_code(shop)

    kept = {file.stem for file in (Path(shop.storage) / "system/code").iterdir()}
    assert kept == {first, third}
    assert len({first, second, third}) == 3
    assert read_record(record).code == first


def test_an_archive_that_cannot_be_written_stops_nothing(shop):
    folder = Path(shop.storage) / "system/code"
    folder.write_text("no folder")

    assert archive_code(shop) == code_digest(shop)


def test_the_archive_is_an_ordinary_zip_file(shop):
    digest = archive_code(shop)

    with zipfile.ZipFile(Path(shop.storage) / f"system/code/{digest}.zip") as archive:
        assert archive.testzip() is None
