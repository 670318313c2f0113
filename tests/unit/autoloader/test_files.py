"""Which files a path means, how new ones are found, and what the ledger remembers."""

from __future__ import annotations

import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.autoloader.discovery import Clock, LocalDiscovery
from headrace.autoloader.globs import InvalidGlob, path_pattern
from headrace.autoloader.ledger.file_states import file_states, files_to_clean, prune_files, record_cleaned
from headrace.autoloader.ledger.ledger import FIRST_NUMBER, Ledger
from headrace.autoloader.ledger.seen_files import SeenFiles
from headrace.autoloader.stores.local import LocalStore
from headrace.autoloader.stores.store import FoundFile
from headrace.autoloader.tree import Selection, Tree
from headrace.errors import PipelineError

NS = 1_000_000_000
NOW_S = 2_000_000_000


class FakeClock:
    """Time that moves when somebody waits; may be told what happens meanwhile."""

    def __init__(self):
        self.now_s = float(NOW_S)
        self.meanwhile = lambda: None

    def sleep(self, seconds):
        self.now_s += seconds
        self.meanwhile()

    @property
    def clock(self):
        return Clock(now_ns=lambda: int(self.now_s * NS), sleep_s=self.sleep)


@pytest.fixture
def time():
    return FakeClock()


@pytest.fixture
def land(data):
    """Makes a file that was changed some seconds ago, in a folder of that time too."""

    def landed(name, content="{}", age_s=100.0, folder_age_s=None):
        file = data / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        at = NOW_S - age_s
        os.utime(file, (at, at))
        for folder in (file.parent, *file.parent.parents):
            if folder.is_relative_to(data):
                old = NOW_S - (age_s if folder_age_s is None else folder_age_s)
                os.utime(folder, (old, old))
        return file

    return landed


@pytest.fixture
def ledger(tmp_path):
    made = Ledger.create(tmp_path / "ledgers")
    yield made
    made.close()


@pytest.fixture
def looking(data, ledger, time):
    """A way to look for new files."""

    def made(path=None, full_listing_interval_s=1e12, **selection):
        tree = Tree.of(str(path or data), Selection(**selection))
        return LocalDiscovery(ledger, tree, full_listing_interval_s=full_listing_interval_s, clock=time.clock)

    return made


def names(ledger, after=0):
    return [file.path.rpartition("/")[2] for file in ledger.files(after, ledger.last_number)]


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("", "a.json b.csv x/c.json x/y/d.json z=1/e.json"),
        ("/*.json", "a.json"),
        ("/x", "x/c.json x/y/d.json"),
        ("/*/*.json", "x/c.json z=1/e.json"),
        ("/{x,z=1}/*", "x/c.json x/y/d.json z=1/e.json"),
        ("/[ab].*", "a.json b.csv"),
        ("/[^a]*.csv", "b.csv"),
        ("/x/{y,w}", "x/y/d.json"),
        ("/?.json", "a.json"),
    ],
)
def test_path_wildcards_match_as_in_hadoop(data, land, path, meant):
    for name in ("a.json", "b.csv", "x/c.json", "x/y/d.json", "z=1/e.json", "_hidden", ".also", "_h/f.json"):
        land(name)

    tree = Tree.of(f"{data}{path}", Selection())
    found = [os.path.relpath(f"{folder}/{file.name}", data) for folder, file in tree.files()]

    assert " ".join(sorted(found)) == meant


def test_a_path_can_be_a_single_file(data, land):
    file = land("a.json")
    land("b.json")

    assert [found.name for _, found in Tree.of(str(file), Selection()).files()] == ["a.json"]


@pytest.mark.parametrize("path", ["/a/{b", "/a/[b"])
def test_a_path_with_an_unclosed_brace_or_bracket_is_refused(path):
    with pytest.raises(InvalidGlob):
        path_pattern(path)


def test_files_are_numbered_by_modification_time(land, looking, ledger):
    land("b.json", age_s=300)
    land("a.json", age_s=100)
    land("c.json", age_s=200)

    assert looking().poll() == 3
    assert names(ledger) == ["b.json", "c.json", "a.json"]


def test_a_late_file_with_an_old_modification_time_is_found(land, looking, ledger):
    discovery = looking()
    land("new.json", age_s=50)
    discovery.poll()
    land("old.json", age_s=10 * 365 * 86400.0, folder_age_s=40)

    assert discovery.poll() == 1
    assert names(ledger) == ["new.json", "old.json"]


def test_an_unchanged_folder_is_not_listed_again(data, land, looking):
    discovery = looking()
    land("a.json")
    discovery.poll()
    # Nobody can do this but a test: an entry that leaves no trace in the time of its folder.
    land("b.json")

    assert discovery.poll() == 0


def test_a_recently_changed_folder_is_listed_again(data, land, looking):
    discovery = looking()
    land("a.json", folder_age_s=1)
    discovery.poll()
    land("b.json", folder_age_s=1)

    assert discovery.poll() == 1


def test_unchanged_folders_are_listed_after_the_full_listing_interval(data, land, looking, time):
    discovery = looking(full_listing_interval_s=3600)
    land("a.json")
    discovery.poll()
    land("b.json")
    time.now_s += 3601

    assert discovery.poll() == 1


def test_a_new_process_knows_the_files_that_were_already_found(data, land, looking, ledger):
    land("a.json", folder_age_s=1)
    looking().poll()

    assert looking().poll() == 0
    assert names(ledger) == ["a.json"]


def test_new_folders_are_found_and_deleted_folders_are_ignored(data, land, looking, ledger):
    discovery = looking()
    gone = land("x/a.json")
    discovery.poll()
    gone.unlink()
    gone.parent.rmdir()
    land("y/z/b.json", folder_age_s=90)
    os.utime(data, (NOW_S - 80, NOW_S - 80))

    assert discovery.poll() == 1
    assert names(ledger) == ["a.json", "b.json"]


def test_a_deleted_source_folder_raises_an_error(data, looking):
    discovery = looking()
    discovery.poll()
    data.rmdir()

    with pytest.raises(PipelineError) as raised:
        discovery.poll()

    assert raised.value.code == "AUTO_LOADER.PATH_MISSING"


def test_a_file_that_is_being_written_is_found_once_it_is_stable(land, looking, ledger, time):
    land("a.json", "{", age_s=0.2)
    discovery = looking()
    writes = iter(["{}", "{}\n{}"])

    def write():
        text = next(writes, None)
        if text:
            land("a.json", text, age_s=NOW_S - time.now_s)

    time.meanwhile = write
    assert discovery.poll() == 0
    assert discovery.poll_until_stable() == 1
    assert ledger.files(0, 1)[0].size == len("{}\n{}")


def test_a_file_with_a_future_time_is_stable_after_one_second(land, looking, time):
    land("a.json", age_s=-500)
    discovery = looking()

    assert discovery.poll() == 0
    time.now_s += 1
    assert discovery.poll() == 1


def test_an_empty_file_is_ignored_until_it_has_content(data, land, looking, time):
    discovery = looking()
    land("a.json", "")
    assert discovery.poll_until_stable() == 0
    # Its folder does not change when something is written into it.
    (data / "a.json").write_text("{}")
    os.utime(data / "a.json", (NOW_S - 5, NOW_S - 5))
    time.now_s += 1

    discovery.poll()
    time.now_s += 1
    assert discovery.poll() == 1


def test_a_new_process_finds_a_file_that_was_not_stable_before(data, land, looking):
    land("a.json", "")
    looking().poll()
    (data / "a.json").write_text("{}")
    os.utime(data / "a.json", (NOW_S - 5, NOW_S - 5))

    assert looking().poll() == 1


def test_a_folder_with_an_unstable_file_is_not_listed_on_every_poll(data, land, looking):
    land("a.json", "")
    discovery = looking()
    discovery.poll()
    land("b.json")

    assert discovery.poll() == 0


def test_an_overwritten_file_is_found_again_if_overwrites_are_allowed(land, looking, ledger):
    land("a.json", "{}")
    discovery = looking(allow_overwrites=True)
    discovery.poll()
    land("a.json", "{}{}")

    assert discovery.poll() == 1
    assert discovery.poll() == 0
    assert [file.size for file in ledger.files(0, 9)] == [2, 4]


def test_an_overwritten_file_is_ignored_if_overwrites_are_not_allowed(land, looking, ledger):
    land("a.json", "{}")
    looking().poll()
    land("a.json", "{}{}", folder_age_s=50)

    assert looking().poll() == 0


def test_files_are_filtered_by_time_and_name(land, looking, ledger):
    land("old.json", age_s=1000)
    land("new.json", age_s=10)
    land("between.json", age_s=100)
    selection = {"after_ns": (NOW_S - 500) * NS, "before_ns": (NOW_S - 50) * NS, "name": re.compile(r"b.*|n.*")}
    looking(**selection).poll()

    assert names(ledger) == ["between.json"]


def test_a_symlink_to_a_parent_folder_is_not_followed(data, land, looking, ledger):
    land("x/a.json")
    (data / "x" / "loop").symlink_to(data)

    looking().poll()

    assert names(ledger) == ["a.json"]


def test_a_batch_is_limited_by_files_and_bytes(ledger):
    found = [("/d", FoundFile(f"{number}", 10, number)) for number in range(1, 6)]
    SeenFiles(ledger).record(found, {}, now_ms=0, allow_overwrites=False)

    assert ledger.end_of_batch(0, 5, max_files=2, max_bytes=None) == 2
    # The one that goes beyond the bytes is still part of it.
    assert ledger.end_of_batch(0, 5, max_files=None, max_bytes=15) == 2
    assert ledger.end_of_batch(0, 5, max_files=4, max_bytes=1000) == 4
    assert ledger.end_of_batch(4, 5, max_files=None, max_bytes=None) == 5
    assert ledger.end_of_batch(5, 5, max_files=1, max_bytes=1) == 5


def test_two_processes_record_a_file_once(tmp_path, ledger):
    other = Ledger.open(tmp_path / "ledgers", ledger.id)
    found = [("/d", FoundFile("a", 1, 1))]

    assert SeenFiles(ledger).record(found, {}, now_ms=0, allow_overwrites=False) == 1
    assert SeenFiles(other).record(found, {}, now_ms=0, allow_overwrites=False) == 0
    assert other.last_number == 1
    other.close()


def test_a_missing_ledger_raises_an_error(tmp_path):
    with pytest.raises(PipelineError) as raised:
        Ledger.open(tmp_path, "abc")

    assert raised.value.code == "AUTO_LOADER.LEDGER_MISSING"


def test_the_ledger_reports_the_state_of_each_file(ledger):
    found = [("/d", FoundFile(name, 1, 1_000_000)) for name in "abc"]
    SeenFiles(ledger).record(found, {}, now_ms=5, allow_overwrites=False)
    ledger.record_commit(2, now_ms=7)
    record_cleaned(ledger, [(1, "/moved/a")], now_ms=9)

    states = [(state.path, state.committed_ms, state.cleaned_ms, state.moved_to) for _, state in file_states(ledger)]

    assert states == [("/d/a", 7, 9, "/moved/a"), ("/d/b", 7, None, None), ("/d/c", None, None, None)]


@given(st.lists(st.lists(st.integers(0, 30), max_size=20), max_size=8))
def test_each_file_is_recorded_once_for_any_sequence_of_polls(tmp_path_factory, looks):
    ledger = Ledger.create(tmp_path_factory.mktemp("ledgers"))
    for poll in looks:
        unknown = SeenFiles(ledger).unknown("/d", [str(number) for number in poll])
        found = [("/d", FoundFile(name, 1, 1)) for name in unknown]
        SeenFiles(ledger).record(found, {}, now_ms=0, allow_overwrites=False)

    wanted = {str(number) for poll in looks for number in poll}
    assert sorted(names(ledger)) == sorted(wanted)
    ledger.close()


def test_a_file_name_that_is_not_utf8_raises_an_error(data, looking):
    with open(os.fsencode(data) + b"/\xff.json", "wb") as file:  # noqa: PTH123 - pathlib knows texts alone
        file.write(b"{}")

    with pytest.raises(PipelineError) as raised:
        looking().poll()

    assert raised.value.code == "AUTO_LOADER.FILE_NAME"


def test_the_number_of_a_pruned_file_is_not_reused(ledger):
    SeenFiles(ledger).record([("/d", FoundFile("a", 1, 1))], {}, now_ms=0, allow_overwrites=False)
    assert prune_files(ledger, 5, 1) == 1

    SeenFiles(ledger).record([("/d", FoundFile("b", 1, 1))], {}, now_ms=0, allow_overwrites=False)

    assert ledger.last_number == 2
    assert names(ledger, after=1) == ["b"]


def test_excluded_existing_files_are_not_cleaned_up(ledger):
    SeenFiles(ledger).record([("/d", FoundFile(name, 1, 1)) for name in "ab"], {}, now_ms=0, allow_overwrites=False)
    ledger.set_note(FIRST_NUMBER, "1")
    ledger.record_commit(2, now_ms=0)

    assert [file.path for file in files_to_clean(ledger, 10, 10)] == ["/d/b"]


def test_a_narrowed_path_ignores_files_in_other_folders(data, land, looking, ledger):
    land("x/a.json")
    land("y/b.json")
    looking().poll()
    land("y/c.json", folder_age_s=50)

    assert looking(path=data / "x").poll() == 0


def test_removing_a_filter_finds_the_files_that_it_excluded(land, looking, ledger):
    land("a.json")
    land("b.jsonl")
    looking(name=re.compile(r".*\.json")).poll()

    assert looking().poll() == 1
    assert names(ledger) == ["a.json", "b.jsonl"]


def test_a_symlink_to_itself_and_a_folder_replaced_by_a_file_do_not_stop_discovery(data, land, looking):
    land("x/a.json")
    discovery = looking()
    discovery.poll()
    (data / "x" / "a.json").unlink()
    (data / "x").rmdir()
    (data / "x").write_text("{}")
    os.utime(data / "x", (NOW_S - 50, NOW_S - 50))
    (data / "self").symlink_to(data / "self")
    os.utime(data, (NOW_S - 40, NOW_S - 40))

    assert discovery.poll() == 1


def test_file_uris_are_escaped_as_in_java():
    store = LocalStore()

    assert (
        store.uri("/data/day=2026-01-01/a b%#?é+,~(1).json") == "file:/data/day=2026-01-01/a%20b%25%23%3Fé+,~(1).json"
    )
