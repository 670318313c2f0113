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


def test_different_streams_started_on_one_line_get_separate_checkpoints(run):
    checkpoints = run()

    names = [begin(checkpoints, does) for does in ("de", "fr", "it")]

    assert names == ["orders", "orders.2", "orders.3"]


def test_a_restarted_stream_continues_with_its_own_checkpoint(run):
    checkpoints = run()

    names = [begin(checkpoints, "de"), begin(checkpoints, "fr"), begin(checkpoints, "de")]

    assert names == ["orders", "orders.2", "orders"]


def test_identical_streams_that_run_concurrently_get_separate_checkpoints(run):
    checkpoints = run()

    names = [begin(checkpoints, "de", runs=True), begin(checkpoints, "de", runs=True)]

    assert names == ["orders", "orders.2"]


def test_streams_find_their_checkpoints_when_the_next_run_changes_their_order(run):
    first, second = run(), run()
    for does in ("de", "fr"):
        begin(first, does)

    names = [begin(second, does) for does in ("fr", "de", "it")]

    assert names == ["orders.2", "orders", "orders.3"]


def test_a_changed_stream_keeps_its_checkpoint_if_it_is_the_only_one_on_its_line(run):
    begin(run(), "before")

    assert begin(run(), "after") == "orders"


def test_the_checkpoint_is_ambiguous_when_one_of_several_streams_on_a_line_changes(run):
    first = run()
    for does in ("de", "fr"):
        begin(first, does)

    with pytest.raises(PipelineError) as error:
        begin(run(), "es")

    assert error.value.code == "SCRIPT.CHECKPOINT_IN_DOUBT"


def test_the_checkpoint_is_ambiguous_when_another_stream_has_continued_from_it(run):
    begin(run(), "de")
    second = run()
    begin(second, "fr")

    with pytest.raises(PipelineError) as error:
        begin(second, "de")

    assert error.value.code == "SCRIPT.CHECKPOINT_IN_DOUBT"


def test_streams_of_the_same_name_on_different_lines_get_separate_checkpoints(run):
    checkpoints = run()

    names = [begin(checkpoints, "de"), begin(checkpoints, "de", line=("script.py", 9))]

    assert names == ["orders", "orders~2"]


def test_scripts_with_the_same_checkpoint_root_get_separate_checkpoints(tmp_path):
    root = str(tmp_path / "root")
    layout = StorageLayout(str(tmp_path))

    one, two = (
        Checkpoints(layout, script).of(None, Identity("foreachBatch-f", (), script), LINE, root)
        for script in ("one", "two")
    )

    assert (one.parent.name, two.parent.name) == ("one", "two")
