"""HDFS as a store of objects, over files of a disk that do what the NameNode does with names."""

from __future__ import annotations

import os
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from stat import S_ISDIR

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from headrace.errors import PipelineError
from headrace.settings.storage import resolve_storage
from headrace.stores.hdfs_files import HdfsFile
from headrace.stores.hdfs_generations import KEPT_GENERATIONS
from headrace.stores.hdfs_store import HdfsStore
from headrace.stores.object_path import ObjectPath
from headrace.stores.uris import StoreUri

ROOT = "hdfs://namenode:8020"


class FilesOnDisk:
    """The methods of :class:`~headrace.stores.hdfs_files.HdfsFiles`, below a folder of a disk."""

    root = ROOT

    def __init__(self, folder):
        self.folder = folder

    def find(self, path):
        try:
            # One look: another writer may remove it between two.
            found = self._file(path).stat()
        except FileNotFoundError:
            return None
        return HdfsFile(path, S_ISDIR(found.st_mode), found.st_size, found.st_mtime_ns // 1_000_000)

    def entries(self, folder):
        at = self._file(folder)
        names = sorted(file.name for file in at.iterdir() if file.name[0] != ".") if at.is_dir() else []
        return [found for name in names if (found := self.find(f"{folder.rstrip('/')}/{name}")) is not None]

    def read(self, path):
        return self._file(path).read_bytes()

    def draft(self, target, content):
        path = f"{target.rpartition('/')[0]}/.{uuid.uuid4().hex}"
        self._file(path).parent.mkdir(parents=True, exist_ok=True)
        self._file(path).write_bytes(content)
        return self.find(path)

    def put(self, draft, target, *, replaces):
        if replaces:
            self._file(draft.path).replace(self._file(target))
            return True
        try:
            os.link(self._file(draft.path), self._file(target))
        except FileExistsError:
            return False
        finally:
            self._file(draft.path).unlink()
        return True

    def copy(self, source, target):
        self.put(self.draft(target, self.read(source)), target, replaces=True)

    def remove(self, path):
        try:
            self._file(path).unlink()
        except FileNotFoundError:
            return False
        return True

    def delete(self, path):
        file = self._file(path)
        if file.is_dir():
            for below in list(file.iterdir()):
                self.delete(f"{path}/{below.name}")
            file.rmdir()
        else:
            file.unlink(missing_ok=True)

    def _file(self, path):
        return Path(f"{self.folder}{path}")


@pytest.fixture
def store(tmp_path):
    return HdfsStore(FilesOnDisk(tmp_path))


def test_of_several_writers_of_a_new_file_one_wins(store):
    for kind in (False, True):
        key = f"shop/{kind}"
        with ThreadPoolExecutor(8) as threads:
            tags = list(
                threads.map(
                    lambda number, key=key, kind=kind: store.put_if_absent(key, b"%d" % number, replaceable=kind),
                    range(8),
                )
            )

        assert [b"%d" % number for number, tag in enumerate(tags) if tag] == [store.get(key)[0]]


def test_of_several_writers_that_saw_one_content_one_replaces_it(store):
    tag = store.put_if_absent("lease.json", b"old", replaceable=True)
    for _ in range(KEPT_GENERATIONS + 2):
        with ThreadPoolExecutor(4) as threads:
            tags = list(
                threads.map(lambda number, tag=tag: store.put_if_tag("lease.json", b"%d" % number, tag), range(4))
            )

        assert [b"%d" % number for number, tag in enumerate(tags) if tag] == [store.get("lease.json")[0]]
        (tag,) = filter(None, tags)


class SlowFiles(FilesOnDisk):
    """Files of a writer that is suspended between reading and writing, while others write."""

    meanwhile = staticmethod(lambda: None)

    def draft(self, target, content):
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        return super().draft(target, content)


@pytest.mark.parametrize("others", [1, KEPT_GENERATIONS, KEPT_GENERATIONS + 1, 3 * KEPT_GENERATIONS])
def test_a_writer_that_was_suspended_replaces_nothing_also_if_its_number_is_free_again(tmp_path, others):
    slow, store = SlowFiles(tmp_path), HdfsStore(FilesOnDisk(tmp_path))
    tag = store.put_if_absent("lease.json", b"0", replaceable=True)

    def write():
        for number in range(others):
            assert store.put_if_tag("lease.json", b"%d" % number, store.head("lease.json").tag)

    slow.meanwhile = write

    assert HdfsStore(slow).put_if_tag("lease.json", b"late", tag) is None
    assert store.get("lease.json")[0] == b"%d" % (others - 1)


def test_what_is_replaced_by_its_tag_can_be_replaced_at_once_and_deleted(store):
    tag = store.put_if_absent("a/lease.json", b"old", replaceable=True)
    store.put("a/lease.json", b"new")

    assert store.put_if_tag("a/lease.json", b"late", tag) is None
    assert (store.get("a/lease.json")[0], store.head("a/lease.json").size_bytes) == (b"new", 3)
    assert ObjectPath(ROOT, "a/lease.json", store).is_file()
    store.delete("a/lease.json")
    assert store.put_if_tag("a/lease.json", b"late", "2") is None
    assert not ObjectPath(ROOT, "a/lease.json", store).exists()


def test_a_file_that_was_copied_here_from_a_disk_is_replaced_by_one_writer(store):
    store.put("lease.json", b"of the disk")
    content, tag = store.get("lease.json")

    with ThreadPoolExecutor(8) as threads:
        tags = list(threads.map(lambda number: store.put_if_tag("lease.json", b"%d" % number, tag), range(8)))

    assert content == b"of the disk"
    assert [b"%d" % number for number, tag in enumerate(tags) if tag] == [store.get("lease.json")[0]]
    assert store.put_if_tag("lease.json", b"late", tag) is None


def test_the_age_of_an_object_is_that_of_its_newest_content(store):
    store.put_if_absent("lease.json", b"old", replaceable=True)

    assert store.age_s("lease.json") < 60
    assert store.age_s("none") is None


NAMES = st.lists(st.sampled_from(["a", "a.b", "b", "0", "generation"]), min_size=1, max_size=3).map("/".join)


@given(st.sets(NAMES, max_size=8), NAMES)
@settings(max_examples=examples(20, 200))
def test_keys_are_listed_in_their_order_from_any_key_on(tmp_path_factory, names, after):
    store = HdfsStore(FilesOnDisk(tmp_path_factory.mktemp("hdfs")))
    files = sorted(name for name in names if not any(other.startswith(f"{name}/") for other in names))
    for name in files:
        store.put(f"shop/{name}", name.encode())

    listed = [meta.key for page in store.list_pages("shop", f"shop/{after}") for meta in page]

    assert listed == [f"shop/{name}" for name in files if name > after]


def test_a_folder_is_deleted_with_all_below_it(store):
    store.put("shop/a/b", b"1")
    store.copy("shop/a/b", "shop/c")

    store.delete_below("shop/a")

    assert (store.list_folder("shop").folders, store.get("shop/c")[0]) == ((), b"1")
    assert not store.has_objects("shop/a")


@pytest.mark.parametrize("place", ["hdfs://namenode:8020/lake/shop", "hdfs://name-service/lake/shop"])
def test_a_storage_can_be_on_a_name_node_or_a_name_service(tmp_path, place):
    assert resolve_storage(place, tmp_path) == place
    assert StoreUri.parse(place).key == "lake/shop"


@pytest.mark.parametrize("place", ["hdfs:///lake/shop", "hdfs://user@namenode:8020/lake", "hdfs://namenode:8020"])
def test_a_place_that_not_all_libraries_find_is_refused(tmp_path, place):
    with pytest.raises(PipelineError) as raised:
        resolve_storage(place, tmp_path)

    assert raised.value.code == "STORAGE.INVALID"
