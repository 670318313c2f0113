"""Keep the original texts of numbers that Arrow has read, vectorised: numpy finds where they begin and end."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_Positions = npt.NDArray[np.int64]
_Bytes = npt.NDArray[np.uint8]
_QUOTE, _BACKSLASH, _COLON = 0x22, 0x5C, 0x3A
_ESCAPED = rb"\u"
_ESCAPED_IN_NAMES = re.compile(r'["\\/\x00-\x1f]')


def _table(letters: bytes) -> npt.NDArray[np.bool_]:
    table = np.zeros(256, dtype=np.bool_)
    table[list(letters)] = True
    return table


_SPACE = _table(b" \t")
_BEGINS_NUMBER = _table(b"-0123456789")


def _steps() -> npt.NDArray[np.uint8]:
    """The transition table of the number parser: the next state for each state and byte, 256 entries per state."""
    # The states: start, sign, zero, integer part, point, fraction, exponent mark, exponent sign, exponent digits.
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
    """A token that begins like a number is not a JSON number."""


def original_texts(text: bytes, name: str, numbers: pa.Array) -> pa.Array | None:
    """The original texts, in the JSON *text*, of the numbers that are members of a name; null if *numbers* is null.

    Args:
        text: whole lines of JSON.
        name: the name of the members.
        numbers: the parsed values of one path with that name, in the order of the text.

    Returns:
        As many texts as there are numbers. None if the text may have other members of that name, so that the texts
        cannot be matched.
    """
    # List elements have no name. A name may be written with escapes, and some characters must be. Most texts have no
    # backslash, and searching for one byte is faster than for two.
    if not name or _ESCAPED_IN_NAMES.search(name) or (b"\\" in text and _ESCAPED in text):
        return None
    # Arrow reads names such as NaN as numbers.
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
    positions = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
    texts = pa.StringArray.from_buffers(len(starts), pa.py_buffer(offsets), pa.py_buffer(letters[positions]))
    if not numbers.null_count:
        return texts
    has_value = numbers.is_valid().to_numpy(zero_copy_only=False)
    return texts.take(pa.array(np.cumsum(has_value) - 1, mask=~has_value))


def _letters_of(text: bytes) -> _Bytes:
    # With a line end at the end, no step needs a bounds check.
    return np.frombuffer(text if text.endswith(b"\n") else text + b"\n", dtype=np.uint8)


def _numbers_of(letters: _Bytes, name: bytes) -> _Positions:
    """The start positions of the numbers that are members of a name."""
    # Compare backwards, because names differ most at the end.
    backwards = (_QUOTE, *reversed(name), _QUOTE)
    ends_name = letters[1:] == backwards[0]
    ends_name &= letters[:-1] == backwards[1]
    ends = np.flatnonzero(ends_name) + 1
    ends = ends[ends >= len(backwards)]
    for distance, letter in enumerate(backwards[2:], start=2):
        ends = ends[letters[ends - distance] == letter]
    ends = ends[letters[ends - len(backwards)] != _BACKSLASH]
    colons = _skip(letters, ends + 1, _SPACE, 1)
    colons = colons[letters[colons] == _COLON]
    positions = _skip(letters, colons + 1, _SPACE, 1)
    return positions[_BEGINS_NUMBER[letters[positions]]]


def _ends_of_numbers(letters: _Bytes, starts: _Positions) -> _Positions:
    """The end positions of the numbers that begin at these positions.

    Raises:
        NoNumber: one of them is not a valid number.
    """
    ends: _Positions = starts.copy()
    active, positions, states = np.arange(len(starts)), starts, np.zeros(len(starts), dtype=np.intp)
    while len(active):
        states = _STEPS[256 * states + letters[positions]].astype(np.intp)
        continues = states < _ENDED
        if not continues.all():
            if (states == _BROKEN).any():
                raise NoNumber
            ends[active[~continues]] = positions[~continues]
            active, positions, states = active[continues], positions[continues], states[continues]
        positions = positions + 1
    return ends


def _skip(letters: _Bytes, positions: _Positions, skipped: npt.NDArray[np.bool_], step: int) -> _Positions:
    """Move each position by *step* until its byte is not one of *skipped*."""
    positions = positions.copy()
    active = np.flatnonzero(skipped[letters[positions]])
    while len(active):
        positions[active] += step
        active = active[skipped[letters[positions[active]]]]
    return positions
