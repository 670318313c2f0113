"""Values of expressions, as far as they are known without running the program."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


class Value:
    """An unknown value; the base of the known ones."""


@dataclass(frozen=True)
class Literal(Value):
    """A constant in the text, also through names and f-strings."""

    value: object


@dataclass(frozen=True)
class Imported(Value):
    """A member of a module, by its full name, such as ``pyspark.sql.functions.col``."""

    name: str


@dataclass(frozen=True)
class Session(Value):
    """A Spark session; ``own`` is True for the session of a batch."""

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
        """The names of its positional parameters, without ``self`` or ``cls``."""
        names = tuple(argument.arg for argument in (*self.node.args.posonlyargs, *self.node.args.args))
        return names[1:] if names[:1] in (("self",), ("cls",)) else names


@dataclass(frozen=True, eq=False)
class Class(Value):
    """A class that the text defines."""

    node: ast.ClassDef


@dataclass(frozen=True, eq=False)
class Instance(Value):
    """An instance of such a class."""

    of: Class


@dataclass(frozen=True, eq=False)
class Bound(Value):
    """A method that is not called yet."""

    of: Value
    name: str
    node: ast.Attribute


@dataclass(frozen=True, eq=False)
class Several(Value):
    """A literal tuple, list or set."""

    items: tuple[Value, ...]


@dataclass(frozen=True, eq=False)
class Record(Value):
    """A literal dictionary, by its values."""

    values: tuple[Value, ...]


@dataclass(frozen=True, eq=False)
class Step:
    """One call of a chain, with its arguments."""

    name: str
    node: ast.Call
    arguments: tuple[Value, ...] = ()
    keywords: Mapping[str, Value] = field(default_factory=dict)

    @property
    def first(self) -> Value:
        """The first argument, or an unknown value."""
        return self.arguments[0] if self.arguments else Value()

    def argument(self, position: int, name: str) -> Value | None:
        """An argument by its position or its name."""
        if len(self.arguments) > position:
            return self.arguments[position]
        return self.keywords.get(name)


@dataclass(frozen=True, eq=False)
class Reader(Value):
    """``spark.read`` or ``spark.readStream`` with its calls so far; ``streaming`` is None if it may be either."""

    streaming: bool | None
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, eq=False)
class Frame(Value):
    """A DataFrame; ``streaming`` is None if unknown.

    ``step`` is the call that returns it and ``parents`` are its inputs. ``root`` is set if it is the value of a name
    that the text does not define.
    """

    streaming: bool | None
    step: Step | None = None
    parents: tuple[Frame, ...] = ()
    reader: Reader | None = None
    batch: bool = False
    root: tuple[int, str] | None = None

    def lineage(self) -> Iterator[Frame]:
        """This frame and all its inputs, each once, the newest first."""
        seen: set[int] = set()
        pending: list[Frame] = [self]
        while pending:
            frame = pending.pop(0)
            if id(frame) not in seen:
                seen.add(id(frame))
                yield frame
                pending += frame.parents

    def made_by(self, *names: str) -> Step | None:
        """The newest call of one of these methods in the lineage."""
        found = (frame.step for frame in self.lineage() if frame.step is not None and frame.step.name in names)
        return next(found, None)

    @property
    def from_batch(self) -> bool:
        """Whether it is the frame that a ``foreachBatch`` function receives, or computed from it."""
        return any(frame.batch for frame in self.lineage())


@dataclass(frozen=True, eq=False)
class Grouped(Value):
    """A grouped DataFrame, before it is aggregated."""

    frame: Frame
    step: Step


@dataclass(frozen=True, eq=False)
class Writer(Value):
    """``frame.write`` or ``frame.writeStream`` with its calls so far."""

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
    """``DeltaTable.forName`` or ``forPath``, with its calls so far."""

    name_or_path: Value
    steps: tuple[Step, ...] = ()


def option_of(steps: tuple[Step, ...], name: str) -> Value | None:
    """The value of an option in the calls of a reader or writer, ignoring case; None if it is not set."""
    found: Value | None = None
    for step in steps:
        if step.name == "option" and isinstance(step.first, Literal):
            if str(step.first.value).lower() == name.lower():
                found = step.argument(1, "value") or Value()
        elif step.name != "option":
            named = {key.lower(): value for key, value in step.keywords.items()}
            found = named.get(name.lower(), found)
    return found


def opaque(steps: tuple[Step, ...]) -> bool:
    """Whether options are set whose names are unknown."""
    return any(
        (step.name == "option" and not isinstance(step.first, Literal))
        or any(keyword.arg is None and not isinstance(keyword.value, ast.Dict) for keyword in step.node.keywords)
        for step in steps
    )


def text_of(value: Value | None) -> str | None:
    """The string value, if it is a known one."""
    return value.value if isinstance(value, Literal) and isinstance(value.value, str) else None


def method_argument(steps: tuple[Step, ...], method: str, keyword: str) -> Value | None:
    """The last argument of a method such as ``format``, or of the keyword that replaces it in another call."""
    found: Value | None = None
    for step in steps:
        if step.name == method:
            found = step.argument(0, keyword) or found
        elif keyword in step.keywords:
            found = step.keywords[keyword]
    return found
