"""Find the tags of XML without parsing it: numpy finds where tags, attributes and texts begin and end.

Only what is checked here is taken to be well formed: elements that are closed by their names, attributes in double
quotes with one space before each, texts without markup. A row with anything else is left to the other reader.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Positions = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_LESS, _GREATER, _SLASH, _QUOTE, _APOSTROPHE, _EQUALS = b"<>/\"'="
_EXCLAMATION, _QUESTION = b"!?"
_DEEPEST = 200
_LONGEST_NAME = 200
_SPACES = np.zeros(256, dtype=np.bool_)
_SPACES[list(b" \t\n\r")] = True
# Not allowed in XML, or not kept as they are.
_CONTROLS = re.compile(rb"[\x00-\x08\x0b-\x1f]|\xef\xbf[\xbe\xbf]")

_OTHER_ENTITY = re.compile(rb"&(?!(?:lt|gt|quot|apos|amp);)")


class Irregular(ValueError):
    """The rows of a text cannot be found by its tags alone."""


@dataclass(frozen=True)
class Parts:
    """Attributes, or texts: the number of their element, and where each begins and ends."""

    elements: Positions
    begins: Positions
    ends: Positions


@dataclass(frozen=True)
class Elements:
    """The elements of rows, in the order of the text.

    Attributes:
        rows: the number of the row of each.
        depths: how deep each is in its row; 0 for the row itself.
        begins, ends: where its name begins and ends.
        has_inner: whether it has elements inside.
    """

    rows: Positions
    depths: Positions
    begins: Positions
    ends: Positions
    has_inner: Flags


class XmlTags:
    """The rows, elements, attributes and texts of a text in UTF-8 that ends with the end of a row.

    Attributes:
        row_begins, row_ends: where each row begins and ends.
        is_regular: whether all of a row has been understood. What is found of other rows has no meaning.
        elements: the elements of the rows.
        attributes: their attributes: the names, from the first letter to the ``=``.
        values: the values of these attributes.
        texts: the texts of the elements without elements inside, which may be empty.

    Raises:
        Irregular: the rows cannot be found by the tags, or there are none.
    """

    def __init__(self, text: bytes, row_tag: bytes) -> None:
        self.text = text
        self.letters: npt.NDArray[np.uint8] = np.frombuffer(text, dtype=np.uint8)
        self._opens = np.flatnonzero(self.letters == _LESS)
        self._closes = np.flatnonzero(self.letters == _GREATER)
        if len(self._opens) != len(self._closes) or not len(self._opens):
            raise Irregular
        if (self._opens > self._closes).any() or (self._closes[:-1] > self._opens[1:]).any():
            raise Irregular
        first = self.letters[self._opens + 1]
        self._is_end = first == _SLASH
        self._is_special = (first == _EXCLAMATION) | (first == _QUESTION)
        self._is_empty = (self.letters[self._closes - 1] == _SLASH) & ~self._is_end & ~self._is_special
        self._check_special(np.flatnonzero(first == _EXCLAMATION))
        self._spaces = np.flatnonzero(_SPACES[self.letters])
        self._find_rows(row_tag)
        self._find_elements()

    def _check_special(self, places: Positions) -> None:
        """Check that comments and CDATA sections end at the first ``>``."""
        for place in places.tolist():
            tag = self.text[self._opens[place] : self._closes[place] + 1]
            is_comment = tag.startswith(b"<!--") and tag.endswith(b"-->") and len(tag) >= len("<!---->")
            if not (is_comment or (tag.startswith(b"<![CDATA[") and tag.endswith(b"]]>"))):
                raise Irregular

    def _find_rows(self, row_tag: bytes) -> None:
        begins = self._opens + 1 + self._is_end
        end = len(row_tag)
        inside = begins + end <= self._closes
        is_row = inside & ~self._is_special
        for place, letter in enumerate(row_tag):
            chosen = np.flatnonzero(is_row)
            is_row[chosen] = self.letters[begins[chosen] + place] == letter
        chosen = np.flatnonzero(is_row)
        after = self.letters[begins[chosen] + end]
        if (after >= 0x80).any():
            raise Irregular
        if ((after < 0x20) & ~_SPACES[after]).any():
            raise Irregular
        is_row[chosen] = _SPACES[after] | (after == _GREATER) | ((after == _SLASH) & ~self._is_end[chosen])
        # "</r >" ends a row too, and "</r x>" does not.
        if (is_row & self._is_end & (self._closes != begins + end)).any():
            raise Irregular
        chosen = np.flatnonzero(is_row & ~self._is_end)
        self._quotes = np.flatnonzero(self.letters == _QUOTE)
        bounds = np.searchsorted(self._quotes, np.stack([self._opens[chosen], self._closes[chosen]]))
        if ((bounds[1] - bounds[0]) & 1).any():
            raise Irregular
        self._apostrophes = self._in_tags(np.flatnonzero(self.letters == _APOSTROPHE))
        if is_row[np.searchsorted(self._opens, self._apostrophes, "right") - 1].any():
            raise Irregular
        steps = np.where(self._is_end, -1, np.where(self._is_empty, 0, 1)) * is_row
        after_depth = np.cumsum(steps)
        before_depth = after_depth - steps
        if not len(after_depth) or after_depth.min() < 0 or after_depth[-1] != 0:
            raise Irregular
        first = np.flatnonzero(is_row & ~self._is_end & (before_depth == 0))
        last = np.flatnonzero(is_row & (after_depth == 0))
        if not len(first):
            raise Irregular
        self.row_begins: Positions = self._opens[first]
        self.row_ends: Positions = self._closes[last] + 1
        self.is_regular: Flags = np.ones(len(first), dtype=np.bool_)
        # The tags of rows.
        row_of = np.searchsorted(first, np.arange(len(self._opens)), "right") - 1
        self._in_rows = (row_of >= 0) & (np.arange(len(self._opens)) <= np.append(last, -1)[row_of])
        self._row_of = row_of

    def _in_tags(self, positions: Positions) -> Positions:
        """Those of some positions that are inside of tags."""
        tags = np.searchsorted(self._opens, positions, "right") - 1
        return positions[(tags >= 0) & (positions < self._closes[tags])]

    def refuse(self, rows: Positions | Flags) -> None:
        """Leave some rows to the other reader."""
        self.is_regular[rows] = False

    def _refuse_at(self, positions: Positions) -> None:
        """Refuse the rows at positions."""
        places = np.searchsorted(self.row_begins, positions, "right") - 1
        places = places[(places >= 0) & (positions < self.row_ends[places])]
        self.is_regular[places] = False

    def _find_elements(self) -> None:
        tags = np.flatnonzero(self._in_rows)
        rows = self._row_of[tags]
        opens, closes = self._opens[tags], self._closes[tags]
        is_end, is_empty, is_special = self._is_end[tags], self._is_empty[tags], self._is_special[tags]
        self.refuse(rows[is_special])
        for unusual in (_CONTROLS, _OTHER_ENTITY):
            self._refuse_at(np.array([match.start() for match in unusual.finditer(self.text)], dtype=np.int64))
        steps = np.where(is_end, -1, np.where(is_empty | is_special, 0, 1))
        after = np.cumsum(steps)
        bounds = np.searchsorted(rows, np.arange(len(self.is_regular) + 1))
        net = np.diff(np.concatenate(([0], after))[bounds])
        self.is_regular &= net == 0
        kept = self.is_regular[rows]
        tags, rows, opens, closes = tags[kept], rows[kept], opens[kept], closes[kept]
        is_end, is_empty, steps = is_end[kept], is_empty[kept], steps[kept]
        depths = np.cumsum(steps) - np.where(is_end, 0, np.where(is_empty, 0, 1))
        self.refuse(rows[(depths < 0) | (depths > _DEEPEST)])
        begins = opens + 1 + is_end
        limits = closes - is_empty
        following = np.searchsorted(self._spaces, begins)
        spaces = np.append(self._spaces, len(self.letters))[following]
        ends = np.minimum(spaces, limits)
        self.refuse(rows[(ends <= begins) | (ends - begins > _LONGEST_NAME) | (is_end & (ends != closes))])
        self._check_names(rows, depths, begins, ends, is_end, is_empty)
        is_element = ~is_end
        element_of = np.cumsum(is_element) - 1
        has_inner = np.append(~is_end[1:], False) & ~is_empty
        self.elements = Elements(
            rows[is_element], depths[is_element], begins[is_element], ends[is_element], has_inner[is_element]
        )
        self._find_texts(rows, closes, opens, is_end, is_empty, element_of)
        self._find_attributes(rows[is_element], ends[is_element], limits[is_element])

    def _check_names(
        self, rows: Positions, depths: Positions, begins: Positions, ends: Positions, is_end: Flags, is_empty: Flags
    ) -> None:
        """Refuse rows with an element that is closed by another name."""
        paired = np.flatnonzero(~is_empty)
        order = paired[np.lexsort((paired, depths[paired], rows[paired]))]
        first, second = order[0::2], order[1::2]
        if len(first) != len(second):
            self.refuse(rows[paired])
            return
        lengths = ends[first] - begins[first]
        fits = ~is_end[first] & is_end[second] & (rows[first] == rows[second]) & (depths[first] == depths[second])
        fits &= lengths == ends[second] - begins[second]
        self.refuse(rows[first[~fits]])
        self.refuse(rows[second[~fits]])
        first, second, lengths = first[fits], second[fits], lengths[fits]
        for distance in range(min(int(lengths.max(initial=0)), _LONGEST_NAME)):
            chosen = np.flatnonzero(lengths > distance)
            differs = self.letters[begins[first[chosen]] + distance] != self.letters[begins[second[chosen]] + distance]
            self.refuse(rows[first[chosen[differs]]])

    def _find_texts(
        self,
        rows: Positions,
        closes: Positions,
        opens: Positions,
        is_end: Flags,
        is_empty: Flags,
        element_of: Positions,
    ) -> None:
        """Find the texts of leaves, and refuse rows with other text."""
        begins, ends = closes[:-1] + 1, opens[1:]
        is_leaf = ~is_end[:-1] & ~is_empty[:-1] & is_end[1:]
        between = np.flatnonzero(~is_leaf & (rows[:-1] == rows[1:]) & (ends > begins))
        if len(between):
            letters = np.concatenate(([0], np.cumsum(~_SPACES[self.letters])))
            others = letters[ends[between]] != letters[begins[between]]
            self.refuse(rows[between[others]])
        leaves, empty = np.flatnonzero(is_leaf), np.flatnonzero(is_empty)
        elements = np.concatenate([element_of[leaves], element_of[empty]])
        order = np.argsort(elements, kind="stable")
        self.texts = Parts(
            elements[order],
            np.concatenate([begins[leaves], closes[empty]])[order],
            np.concatenate([ends[leaves], closes[empty]])[order],
        )

    def _find_attributes(self, rows: Positions, name_ends: Positions, limits: Positions) -> None:
        """Find attributes: a space, a name, ``=`` and a value in double quotes."""
        with_more = np.flatnonzero(limits > name_ends)
        quotes = self._quotes
        begins = np.searchsorted(quotes, name_ends[with_more])
        counts = np.searchsorted(quotes, limits[with_more]) - begins
        self.refuse(rows[with_more[(counts == 0) | (counts & 1 == 1)]])
        pairs = counts // 2
        elements = np.repeat(with_more, pairs)
        ordinal = np.arange(len(elements)) - np.repeat(np.cumsum(pairs) - pairs, pairs)
        place = np.repeat(begins, pairs) + 2 * ordinal
        opened, closed = (quotes[place], quotes[place + 1]) if len(place) else (place, place)
        previous = np.where(ordinal == 0, name_ends[elements], np.roll(closed, 1) + 1)
        last_space = self._spaces[np.maximum(np.searchsorted(self._spaces, opened) - 1, 0)] if len(place) else place
        fits = (last_space == previous) & (self.letters[opened - 1] == _EQUALS) & (opened - 1 > previous + 1)
        is_last = ordinal == np.repeat(pairs, pairs) - 1
        fits &= ~is_last | (closed + 1 == limits[elements])
        self.refuse(rows[elements[~fits]])
        # Other spaces in tags become plain ones.
        self._refuse_at(self._in_tags(self._spaces[self.letters[self._spaces] != 0x20]))
        self._refuse_at(self._apostrophes)
        self.attributes = Parts(elements, previous + 1, opened - 1)
        self.values = Parts(elements, opened + 1, closed)

    def texts_between(self, begins: Positions, ends: Positions) -> pa.StringArray:
        """The texts between positions, which are in order."""
        lengths = ends - begins
        offsets = np.zeros(len(begins) + 1, dtype=np.int32)
        np.cumsum(lengths, out=offsets[1:])
        places = np.repeat(begins - offsets[:-1], lengths) + np.arange(offsets[-1])
        return pa.StringArray.from_buffers(len(begins), pa.py_buffer(offsets), pa.py_buffer(self.letters[places]))
