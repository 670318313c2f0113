"""Parse one row of XML into elements, and convert elements to JSON members."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from headrace.autoloader.reading.json_scan import Members

# Maximum nesting of elements; converters are recursive.
_DEEPEST = 200


class MalformedXml(ValueError):
    """A text is not one well-formed XML element; the message says why."""


@dataclass(frozen=True)
class XmlNames:
    """How names and values are converted, from a reader's options."""

    prefix: str = "_"
    value: str = "_VALUE"
    null: str | None = None
    attributes: bool = True
    trims: bool = True
    namespaces: bool = True

    @classmethod
    def of(cls, options: Mapping[str, str]) -> XmlNames:
        """The conversions in a reader's options."""
        return cls(
            options.get("attributePrefix", "_"),
            options.get("valueTag", "_VALUE"),
            options.get("nullValue"),
            options.get("excludeAttribute") != "true",
            options.get("ignoreSurroundingSpaces") != "false",
            options.get("ignoreNamespace") != "true",
        )

    def name(self, text: str) -> str:
        """The converted name of an element or attribute."""
        return text if self.namespaces else text.rpartition(":")[2]

    def text(self, text: str) -> str | None:
        """The converted text of a value; None if it means NULL."""
        converted = text.strip() if self.trims else text
        return None if converted == self.null else converted


@dataclass
class Element:
    """An XML element; ``inner`` has its child elements and texts, in order."""

    name: str
    attributes: list[tuple[str, str]]
    inner: list[Element | str] = field(default_factory=list)

    @property
    def is_plain(self) -> bool:
        """Whether it contains only one text, or nothing."""
        return not self.inner or (len(self.inner) == 1 and isinstance(self.inner[0], str))

    @property
    def elements(self) -> list[Element]:
        """The child elements."""
        return [part for part in self.inner if isinstance(part, Element)]

    def text_content(self) -> str:
        """Its content as text, including tags, as ``StaxXmlParserUtils.currentStructureAsString``."""
        if not self.inner:
            return ""
        first = self.inner[0]
        if len(self.inner) == 1 and isinstance(first, str):
            return first
        return "".join(part if isinstance(part, str) else part.to_xml() for part in self.inner)

    def to_xml(self) -> str:
        """The element as XML text."""
        attributes = "".join(f" {name}={quoteattr(value)}" for name, value in self.attributes)
        return f"<{self.name}{attributes}>{self.text_content()}</{self.name}>"


def parse_element(text: str, names: XmlNames) -> Element:
    """Parse one element.

    Only the five XML entities and character references are allowed: a text with a document type is malformed.

    Raises:
        MalformedXml: the text is not one well-formed element, or it nests too deep.
    """
    return _ElementBuilder(names).build(text)


class _ElementBuilder:
    def __init__(self, names: XmlNames) -> None:
        self._names = names
        self._open: list[Element] = [Element("", [])]

    def build(self, text: str) -> Element:
        parser = expat.ParserCreate("utf-8")
        parser.ordered_attributes = True
        parser.buffer_text = True
        parser.StartElementHandler = self._begin
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.StartDoctypeDeclHandler = _refuse_type
        try:
            parser.Parse(text.encode("utf-8", "replace"), True)  # noqa: FBT003 - expat's own
        except expat.ExpatError as error:
            raise MalformedXml(str(error)) from error
        return self._open[0].elements[0]

    def _begin(self, name: str, attributes: list[str]) -> None:
        if len(self._open) > _DEEPEST:
            raise MalformedXml(f"elements nest deeper than {_DEEPEST}")
        pairs = list(zip(attributes[::2], attributes[1::2], strict=True)) if self._names.attributes else []
        element = Element(self._names.name(name), [(self._names.name(key), value) for key, value in pairs])
        self._open[-1].inner.append(element)
        self._open.append(element)

    def _end(self, name: str) -> None:
        del name
        self._open.pop()

    def _text(self, text: str) -> None:
        inner = self._open[-1].inner
        if inner and isinstance(inner[-1], str):
            inner[-1] += text
        else:
            inner.append(text)


def _refuse_type(*_: Any) -> None:
    raise MalformedXml("a document type is inside")


def element_to_json(element: Element, names: XmlNames) -> Any:
    """The JSON form of an element for the rescued column: its text, or an object of attributes, elements and text."""
    if not element.attributes and (element.is_plain or not element.elements):
        return names.text(element.text_content())
    found: dict[str, list[Any]] = {}
    for name, value in element.attributes:
        found.setdefault(names.prefix + name, []).append(names.text(value))
    for part in element.inner:
        if isinstance(part, Element):
            found.setdefault(part.name, []).append(element_to_json(part, names))
        elif part.strip():
            found.setdefault(names.value, []).append(names.text(part))
    return Members((name, values[0] if len(values) == 1 else values) for name, values in found.items())
