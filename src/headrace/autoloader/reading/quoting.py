"""Numbers of a JSON text in quotes, all at once: numpy finds where they begin and end."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

_Places = npt.NDArray[np.int64]
_Bytes = npt.NDArray[np.uint8]
_QUOTE, _BACKSLASH, _COLON = 0x22, 0x5C, 0x3A


def _table(letters: bytes) -> npt.NDArray[np.bool_]:
    table = np.zeros(256, dtype=np.bool_)
    table[list(letters)] = True
    return table


_SPACE = _table(b" \t")
_BEGINS_NUMBER = _table(b"-0123456789")


def _steps() -> npt.NDArray[np.uint8]:
    """For each state of reading a number and each letter the next state, 256 to a state."""
    # What may come next: a sign, the whole part, a point, what follows that, an exponent, its sign, its digits.
    begin, minus, zero, whole, point, fraction, e, sign, exponent = range(_ENDED)
    states = np.full((_ENDED, 256), _BROKEN, dtype=np.uint8)
    digits = list(b"0123456789")
    for state in (zero, whole, fraction, exponent):
        states[state] = _ENDED
        states[state, list(b"-+.eE") + digits] = _BROKEN
    states[begin, ord("-")] = minus
    for state in (begin, minus):
        states[state, digits] = whole
        states[state, ord("0")] = zero
    for state, next_state in ((whole, whole), (point, fraction), (fraction, fraction), (exponent, exponent)):
        states[state, digits] = next_state
    states[[zero, whole], ord(".")] = point
    for state in (zero, whole, fraction):
        states[state, list(b"eE")] = e
    states[e, list(b"+-")] = sign
    for state in (e, sign):
        states[state, digits] = exponent
    return states.ravel()


_ENDED, _BROKEN = 9, 10
_STEPS = _steps()


class NoNumber(ValueError):
    """What begins as a number is none of JSON."""


def with_quoted_numbers(text: bytes, names: Iterable[str]) -> bytes:
    """The JSON *text* with the numbers that are members of these names, at any depth, as texts.

    Nothing inside of a text looks like such a member: there, each quote has a backslash before it.

    Raises:
        NoNumber: one of them is no number, such as ``1.2.3``, which is not to become a text.
    """
    # A byte behind the end spares each step a look at it; one before the beginning, the same.
    letters = np.frombuffer(b"\n" + text + b"\n", dtype=np.uint8)
    colons = np.flatnonzero(letters == _COLON)
    # The last letter of what stands before each.
    before = _stepped(letters, colons - 1, _SPACE, -1)
    is_name = letters[before] == _QUOTE
    colons, before = colons[is_name], before[is_name]
    starts = np.concatenate([_numbers_of(letters, colons, before, name.encode()) for name in names])
    starts.sort()
    ends = _ends_of_numbers(letters, starts)
    quotes = np.empty(2 * len(starts), dtype=np.int64)
    quotes[0::2], quotes[1::2] = starts, ends
    return np.insert(letters[1:-1], quotes - 1, _QUOTE).tobytes()


def _numbers_of(letters: _Bytes, colons: _Places, before: _Places, name: bytes) -> _Places:
    """Where the numbers begin that are members of a name; *before* each colon is the quote that ends a name."""
    begins = before - len(name) - 1
    colons, begins = colons[begins > 0], begins[begins > 0]
    # From the end, where names differ most.
    for place in range(len(name), -1, -1):
        wanted = name[place - 1] if place else _QUOTE
        same = letters[begins + place] == wanted
        colons, begins = colons[same], begins[same]
    colons = colons[letters[begins - 1] != _BACKSLASH]
    places = _stepped(letters, colons + 1, _SPACE, 1)
    return places[_BEGINS_NUMBER[letters[places]]]


def _ends_of_numbers(letters: _Bytes, starts: _Places) -> _Places:
    """Where the numbers end that begin at these places.

    Raises:
        NoNumber: one of them is none.
    """
    ends: _Places = starts.copy()
    going, places, states = np.arange(len(starts)), starts, np.zeros(len(starts), dtype=np.intp)
    while len(going):
        states = _STEPS[256 * states + letters[places]].astype(np.intp)
        on = states < _ENDED
        if not on.all():
            if (states == _BROKEN).any():
                raise NoNumber
            ends[going[~on]] = places[~on]
            going, places, states = going[on], places[on], states[on]
        places = places + 1
    return ends


def _stepped(letters: _Bytes, places: _Places, some: npt.NDArray[np.bool_], step: int) -> _Places:
    """From each place, step by step, the first one whose letter is none of *some*."""
    places = places.copy()
    going = np.flatnonzero(some[letters[places]])
    while len(going):
        places[going] += step
        going = going[some[letters[places[going]]]]
    return places
