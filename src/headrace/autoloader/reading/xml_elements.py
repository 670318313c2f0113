"""One row of XML as elements, and those as the members that JSON would have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from headrace.autoloader.reading.json_scan import Members

# Elements inside of elements; a converter calls itself for each.
_DEEPEST = 200


class MalformedXml(ValueError):
    """A text is not one well-formed element; the message says why."""


@dataclass(frozen=True)
class XmlNames:
    """What becomes of names and values, by the options of a reader."""

    prefix: str = "_"
    value: str = "_VALUE"
    null: str | None = None
    attributes: bool = True
    trims: bool = True
    namespaces: bool = True

    @classmethod
    def of(cls, options: Mapping[str, str]) -> XmlNames:
        """What the options say."""
        return cls(
            options.get("attributePrefix", "_"),
            options.get("valueTag", "_VALUE"),
            options.get("nullValue"),
            options.get("excludeAttribute") != "true",
            options.get("ignoreSurroundingSpaces") != "false",
            options.get("ignoreNamespace") != "true",
        )

    def name(self, text: str) -> str:
        """The name of an element or attribute."""
        return text if self.namespaces else text.rpartition(":")[2]

    def text(self, text: str) -> str | None:
        """A value; None where it stands for NULL."""
        made = text.strip() if self.trims else text
        return None if made == self.null else made


@dataclass
class Element:
    """An element; ``inner`` has its elements and the texts between them, in order."""

    name: str
    attributes: list[tuple[str, str]]
    inner: list[Element | str] = field(default_factory=list)

    @property
    def is_plain(self) -> bool:
        """Whether it holds one text, or nothing."""
        return not self.inner or (len(self.inner) == 1 and isinstance(self.inner[0], str))

    @property
    def elements(self) -> list[Element]:
        """The elements in it."""
        return [part for part in self.inner if isinstance(part, Element)]

    def spelled(self) -> str:
        """What is in it as a text, with tags: ``StaxXmlParserUtils.currentStructureAsString``."""
        if not self.inner:
            return ""
        first = self.inner[0]
        if len(self.inner) == 1 and isinstance(first, str):
            return first
        return "".join(part if isinstance(part, str) else part.tagged() for part in self.inner)

    def tagged(self) -> str:
        """The element itself as a text."""
        attributes = "".join(f" {name}={quoteattr(value)}" for name, value in self.attributes)
        return f"<{self.name}{attributes}>{self.spelled()}</{self.name}>"


def element_of(text: str, names: XmlNames) -> Element:
    """The element that a text is.

    Entities are the five of XML, and numbers: a text that brings a document type, and with it others, is malformed.

    Raises:
        MalformedXml: it is not one well-formed element, or it nests too deep.
    """
    return _Building(names).built(text)


class _Building:
    def __init__(self, names: XmlNames) -> None:
        self._names = names
        self._open: list[Element] = [Element("", [])]

    def built(self, text: str) -> Element:
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


def members_of(element: Element, names: XmlNames) -> Any:
    """What the rescued column says of an element: its text, or an object of its attributes, elements and text."""
    if not element.attributes and (element.is_plain or not element.elements):
        return names.text(element.spelled())
    found: dict[str, list[Any]] = {}
    for name, value in element.attributes:
        found.setdefault(names.prefix + name, []).append(names.text(value))
    for part in element.inner:
        if isinstance(part, Element):
            found.setdefault(part.name, []).append(members_of(part, names))
        elif part.strip():
            found.setdefault(names.value, []).append(names.text(part))
    return Members((name, values[0] if len(values) == 1 else values) for name, values in found.items())
