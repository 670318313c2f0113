"""Which checkpoint a stream of a script has that names none."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from headrace.errors import PipelineError
from headrace.settings.storage import StorageLayout
from headrace.spark.notebook.checkpoints import Checkpoints, Identity

LINE = ("script.py", 3)


@pytest.fixture
def run(tmp_path):
    """The checkpoints of a run of the script; each call is another run."""
    return lambda: Checkpoints(StorageLayout(str(tmp_path)), "script")


def begin(checkpoints, does, *, line=LINE, name="orders", runs=False, root=None):
    """Start a query that makes progress, and give the name of its checkpoint."""
    folder = checkpoints.of(name, Identity("table orders", ("rate",), does), line, root)
    checkpoints.started(folder, SimpleNamespace(isActive=runs))
    (folder / "offsets").mkdir(exist_ok=True)
    (folder / "offsets" / "0").touch()
    return folder.name


def test_each_has_its_own_when_one_line_starts_streams_that_do_different_things(run):
    checkpoints = run()

    names = [begin(checkpoints, does) for does in ("de", "fr", "it")]

    assert names == ["orders", "orders.2", "orders.3"]


def test_it_goes_on_with_its_own_when_a_stream_is_started_again(run):
    checkpoints = run()

    names = [begin(checkpoints, "de"), begin(checkpoints, "fr"), begin(checkpoints, "de")]

    assert names == ["orders", "orders.2", "orders"]


def test_the_second_has_another_when_both_run_at_once(run):
    checkpoints = run()

    names = [begin(checkpoints, "de", runs=True), begin(checkpoints, "de", runs=True)]

    assert names == ["orders", "orders.2"]


def test_each_finds_its_own_when_the_next_run_starts_them_in_another_order(run):
    first, second = run(), run()
    for does in ("de", "fr"):
        begin(first, does)

    names = [begin(second, does) for does in ("fr", "de", "it")]

    assert names == ["orders.2", "orders", "orders.3"]


def test_it_goes_on_when_the_only_one_of_a_line_was_changed(run):
    begin(run(), "before")

    assert begin(run(), "after") == "orders"


def test_it_is_in_doubt_when_one_of_several_was_changed(run):
    first = run()
    for does in ("de", "fr"):
        begin(first, does)

    with pytest.raises(PipelineError) as error:
        begin(run(), "es")

    assert error.value.code == "SCRIPT.CHECKPOINT_IN_DOUBT"


def test_it_is_in_doubt_when_another_has_gone_on_with_the_progress(run):
    begin(run(), "de")
    second = run()
    begin(second, "fr")

    with pytest.raises(PipelineError) as error:
        begin(second, "de")

    assert error.value.code == "SCRIPT.CHECKPOINT_IN_DOUBT"


def test_another_line_has_another_when_it_starts_a_stream_of_the_same_name(run):
    checkpoints = run()

    names = [begin(checkpoints, "de"), begin(checkpoints, "de", line=("script.py", 9))]

    assert names == ["orders", "orders~2"]


def test_scripts_keep_apart_when_settings_name_one_folder_for_all(tmp_path):
    root = str(tmp_path / "root")
    layout = StorageLayout(str(tmp_path))

    one, two = (
        Checkpoints(layout, script).of(None, Identity("foreachBatch-f", (), script), LINE, root)
        for script in ("one", "two")
    )

    assert (one.parent.name, two.parent.name) == ("one", "two")
