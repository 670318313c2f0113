"""What an expression stands for, as far as a reader can tell without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


class Value:
    """Anything; nothing is known of it."""


@dataclass(frozen=True)
class Literal(Value):
    """A constant that is written in the text, also by way of names and f-strings."""

    value: object


@dataclass(frozen=True)
class Imported(Value):
    """Something of a module, by its full name, such as ``pyspark.sql.functions.col``."""

    name: str


@dataclass(frozen=True)
class Session(Value):
    """A Spark session; ``own`` is True for the one that a batch brings."""

    own: bool = False


@dataclass(frozen=True)
class Conf(Value):
    """``spark.conf``."""


@dataclass(frozen=True)
class Streams(Value):
    """``spark.streams``, or the list of its queries."""

    listed: bool = False


@dataclass(frozen=True, eq=False)
class Function(Value):
    """A function that the text defines."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of its parameters by their places, but for the object or the class that a method is of."""
        names = tuple(argument.arg for argument in (*self.node.args.posonlyargs, *self.node.args.args))
        return names[1:] if names[:1] in (("self",), ("cls",)) else names


@dataclass(frozen=True, eq=False)
class Class(Value):
    """A class that the text defines."""

    node: ast.ClassDef


@dataclass(frozen=True, eq=False)
class Instance(Value):
    """What calling such a class gives."""

    of: Class


@dataclass(frozen=True, eq=False)
class Bound(Value):
    """A method that is not called yet."""

    of: Value
    name: str
    node: ast.Attribute


@dataclass(frozen=True, eq=False)
class Several(Value):
    """A tuple, a list or a set that is written out."""

    items: tuple[Value, ...]


@dataclass(frozen=True, eq=False)
class Record(Value):
    """A dictionary that is written out, by its values."""

    values: tuple[Value, ...]


@dataclass(frozen=True, eq=False)
class Step:
    """One call of a chain, with what is handed to it."""

    name: str
    node: ast.Call
    arguments: tuple[Value, ...] = ()
    keywords: Mapping[str, Value] = field(default_factory=dict)

    @property
    def first(self) -> Value:
        """The first argument, or nothing that is known."""
        return self.arguments[0] if self.arguments else Value()

    def given(self, position: int, name: str) -> Value | None:
        """An argument by its place or its name."""
        if len(self.arguments) > position:
            return self.arguments[position]
        return self.keywords.get(name)


@dataclass(frozen=True, eq=False)
class Reader(Value):
    """``spark.read`` or ``spark.readStream`` with what was said to it; ``streaming`` is None where it may be either."""

    streaming: bool | None
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, eq=False)
class Frame(Value):
    """A DataFrame; ``streaming`` is None where the text does not tell.

    ``step`` is the call that gives it and ``parents`` what it is computed from. It has a ``root`` where it is what some
    name stands for, and the text does not say more.
    """

    streaming: bool | None
    step: Step | None = None
    parents: tuple[Frame, ...] = ()
    reader: Reader | None = None
    batch: bool = False
    root: tuple[int, str] | None = None

    def lineage(self) -> Iterator[Frame]:
        """This frame and all that it is computed from, each once, the newest first."""
        seen: set[int] = set()
        waiting: list[Frame] = [self]
        while waiting:
            frame = waiting.pop(0)
            if id(frame) not in seen:
                seen.add(id(frame))
                yield frame
                waiting += frame.parents

    def made_by(self, *names: str) -> Step | None:
        """The newest call of one of these methods in the lineage."""
        found = (frame.step for frame in self.lineage() if frame.step is not None and frame.step.name in names)
        return next(found, None)

    @property
    def from_batch(self) -> bool:
        """Whether it is the frame that a ``foreachBatch`` function gets, or computed from it."""
        return any(frame.batch for frame in self.lineage())


@dataclass(frozen=True, eq=False)
class Grouped(Value):
    """Rows in groups, before they are aggregated."""

    frame: Frame
    step: Step


@dataclass(frozen=True, eq=False)
class Writer(Value):
    """``frame.write`` or ``frame.writeStream`` with what was said to it."""

    frame: Frame
    streaming: bool
    node: ast.Attribute
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, eq=False)
class Query(Value):
    """A streaming query that was started."""


@dataclass(frozen=True, eq=False)
class Status(Value):
    """``query.status``."""


@dataclass(frozen=True, eq=False)
class Progress(Value):
    """``query.lastProgress``, or an item of ``recentProgress``."""


@dataclass(frozen=True, eq=False)
class DeltaTarget(Value):
    """``DeltaTable.forName`` or ``forPath``, with what is said to it."""

    place: Value
    steps: tuple[Step, ...] = ()


def option_of(steps: tuple[Step, ...], name: str) -> Value | None:
    """The value of an option in the calls of a reader or a writer, whatever its letters' case; None without one."""
    found: Value | None = None
    for step in steps:
        if step.name == "option" and isinstance(step.first, Literal):
            if str(step.first.value).lower() == name.lower():
                found = step.given(1, "value") or Value()
        elif step.name != "option":
            named = {key.lower(): value for key, value in step.keywords.items()}
            found = named.get(name.lower(), found)
    return found


def opaque(steps: tuple[Step, ...]) -> bool:
    """Whether options are given that the text does not spell out."""
    return any(
        (step.name == "option" and not isinstance(step.first, Literal))
        or any(keyword.arg is None and not isinstance(keyword.value, ast.Dict) for keyword in step.node.keywords)
        for step in steps
    )


def text_of(value: Value | None) -> str | None:
    """The text that a value is known to be."""
    return value.value if isinstance(value, Literal) and isinstance(value.value, str) else None


def said(steps: tuple[Step, ...], method: str, keyword: str) -> Value | None:
    """What was last given to a method such as ``format``, also where the last call takes it by name."""
    found: Value | None = None
    for step in steps:
        if step.name == method:
            found = step.given(0, keyword) or found
        elif keyword in step.keywords:
            found = step.keywords[keyword]
    return found
