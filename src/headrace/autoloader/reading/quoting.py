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
_IN_NUMBER = _table(b"-+.eE0123456789")


def with_quoted_numbers(text: bytes, names: Iterable[str]) -> bytes:
    """The JSON *text* with the numbers that are members of these names, at any depth, as texts.

    Nothing inside of a text looks like such a member: there, each quote has a backslash before it.
    """
    # A byte behind the end spares each step a look at it.
    letters = np.frombuffer(text + b"\n", dtype=np.uint8)
    starts = np.concatenate([_numbers_of(text, letters, name) for name in names])
    starts.sort()
    ends = _behind(letters, starts, _IN_NUMBER)
    quotes = np.empty(2 * len(starts), dtype=np.int64)
    quotes[0::2], quotes[1::2] = starts, ends
    return np.insert(letters[:-1], quotes, _QUOTE).tobytes()


def _numbers_of(text: bytes, letters: _Bytes, name: str) -> _Places:
    """Where the numbers begin that are members of a name."""
    key = b'"' + name.encode() + b'"'
    found = []
    at = text.find(key)
    while at >= 0:
        found.append(at)
        at = text.find(key, at + len(key))
    places = np.array(found, dtype=np.int64)
    places = places[(places == 0) | (letters[places - 1] != _BACKSLASH)]
    places = _behind(letters, places + len(key), _SPACE)
    places = places[letters[places] == _COLON] + 1
    places = _behind(letters, places, _SPACE)
    return places[_BEGINS_NUMBER[letters[places]]]


def _behind(letters: _Bytes, places: _Places, some: npt.NDArray[np.bool_]) -> _Places:
    """From each place, the first one whose letter is none of *some*."""
    places = places.copy()
    going = np.flatnonzero(some[letters[places]])
    while len(going):
        places[going] += 1
        going = going[some[letters[places[going]]]]
    return places
