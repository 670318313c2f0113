"""What is left of batches goes while an update goes on."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from headrace.project.update.java_garbage import GarbageCollection


class Frame:
    """As a frame of PySpark's: it has a method that has it."""

    def __init__(self) -> None:
        self.method = self.__str__


@pytest.fixture
def by_itself() -> Iterator[None]:
    """Python collects nothing by itself."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("by_itself")
def test_data_frames_of_completed_batches_are_released_every_few_batches() -> None:
    garbage = GarbageCollection(every_batches=3)
    frames = []
    kept = []
    for _ in range(7):
        frames.append(weakref.ref(Frame()))
        garbage.batch_done()
        kept.append(sum(frame() is not None for frame in frames))

    assert kept == [1, 2, 0, 1, 2, 0, 1]
