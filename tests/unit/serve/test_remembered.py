"""Readings that are used again: for a while, for longer if they took longer, and never too many."""

from __future__ import annotations

import pytest

from headrace.serve.remembered import Remembered


class Clock:
    def __init__(self):
        self.at, self.reads = 0.0, []

    def seconds(self):
        return self.at

    def read(self, value, cost_s=0.0):
        def reading():
            self.reads.append(value)
            self.at += cost_s
            return value

        return reading


def test_a_reading_is_used_again_for_as_long_as_its_cost_asks():
    clock = Clock()
    remembered = Remembered(clock.seconds)

    assert [remembered.of("a", clock.read(one)) for one in (1, 2)] == [1, 1]
    clock.at = 2.0
    assert remembered.of("a", clock.read(3, cost_s=10)) == 3
    clock.at += 49
    assert remembered.of("a", clock.read(4)) == 3
    clock.at += 2
    assert (remembered.of("a", clock.read(5)), clock.reads) == (5, [1, 3, 5])


def test_what_fails_is_read_again_and_the_oldest_makes_room():
    clock = Clock()
    remembered = Remembered(clock.seconds)

    with pytest.raises(ZeroDivisionError):
        remembered.of("a", lambda: 1 // 0)
    assert remembered.of("a", clock.read("ok")) == "ok"
    for number in range(1000):
        remembered.of(number, clock.read(number))
    assert len(remembered._found) == 64
    assert remembered.of("a", clock.read("again")) == "again"
