"""Numbers of a JSON text as they are written, all at once: numpy finds where they begin and end.

Where Arrow has read them all as numbers, their spelling is taken out of the text and put in their place. Else they are
put in quotes, for Arrow to read them as texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_Places = npt.NDArray[np.int64]
_Bytes = npt.NDArray[np.uint8]
_QUOTE, _BACKSLASH, _COLON = 0x22, 0x5C, 0x3A
_ESCAPED = rb"\u"
_WRITTEN_OTHERWISE = re.compile(r'["\\/\x00-\x1f]')


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
    letters = _letters_of(text)
    starts = np.concatenate([_numbers_of(letters, name.encode()) for name in names])
    starts.sort()
    ends = _ends_of_numbers(letters, starts)
    quotes = np.empty(2 * len(starts), dtype=np.int64)
    quotes[0::2], quotes[1::2] = starts, ends
    return np.insert(letters, quotes, _QUOTE).tobytes()


def as_spelled(text: bytes, name: str, numbers: pa.Array) -> pa.Array | None:
    """The numbers that are members of a name, as they are written in the JSON *text*; null where *numbers* has null.

    Args:
        text: whole lines of JSON.
        name: of the members.
        numbers: what was read of one place of that name, in the order of the text.

    Returns:
        Texts, as many as there are numbers. None where the text may have other members of that name, so that it is
        not known which one is which.
    """
    # Elements of lists have no name. A name may be written in other letters, some of which are only written so. Most
    # texts have no backslash, and one letter is found faster than two.
    if not name or _WRITTEN_OTHERWISE.search(name) or (b"\\" in text and _ESCAPED in text):
        return None
    # Arrow reads names, such as NaN, as numbers.
    if not np.isfinite(numbers.drop_null().to_numpy(zero_copy_only=False)).all():
        return None
    letters = _letters_of(text)
    starts = _numbers_of(letters, name.encode())
    if len(starts) != len(numbers) - numbers.null_count:
        return None
    try:
        lengths = _ends_of_numbers(letters, starts) - starts
    except NoNumber:
        return None
    offsets = np.zeros(len(starts) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    places = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
    spelled = pa.StringArray.from_buffers(len(starts), pa.py_buffer(offsets), pa.py_buffer(letters[places]))
    if not numbers.null_count:
        return spelled
    there = numbers.is_valid().to_numpy(zero_copy_only=False)
    return spelled.take(pa.array(np.cumsum(there) - 1, mask=~there))


def _letters_of(text: bytes) -> _Bytes:
    # A line end at the end spares each step a look at it.
    return np.frombuffer(text if text.endswith(b"\n") else text + b"\n", dtype=np.uint8)


def _numbers_of(letters: _Bytes, name: bytes) -> _Places:
    """Where the numbers begin that are members of a name."""
    # From the end, where names differ most.
    backwards = (_QUOTE, *reversed(name), _QUOTE)
    ends_name = letters[1:] == backwards[0]
    ends_name &= letters[:-1] == backwards[1]
    ends = np.flatnonzero(ends_name) + 1
    ends = ends[ends >= len(backwards)]
    for place, letter in enumerate(backwards[2:], start=2):
        ends = ends[letters[ends - place] == letter]
    ends = ends[letters[ends - len(backwards)] != _BACKSLASH]
    colons = _stepped(letters, ends + 1, _SPACE, 1)
    colons = colons[letters[colons] == _COLON]
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
