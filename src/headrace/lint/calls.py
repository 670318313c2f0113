"""What an attribute stands for and what a call gives, by what they are of."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any, Protocol

from headrace.lint import methods
from headrace.lint.scopes import FUNCTIONS, of_pipelines
from headrace.lint.sql_streams import reads_stream, tables_of
from headrace.lint.values import (
    Bound,
    Class,
    Conf,
    DeltaTarget,
    Frame,
    Function,
    Grouped,
    Imported,
    Instance,
    Literal,
    Progress,
    Query,
    Reader,
    Session,
    Several,
    Status,
    Step,
    Streams,
    Value,
    Writer,
    text_of,
)

_DELTA = "DeltaTable"


class Reading(Protocol):
    """The part of a reading that calls need."""

    facts: Any
    before: Any

    def started(self, writer: Writer, step: Step) -> None:
        """Note that a stream is started."""

    def batch_function(self, value: Value) -> None:
        """Note what is handed to ``foreachBatch``."""

    def view(self, name: str, frame: Frame) -> None:
        """Note that a frame is a view of this name."""

    def function_called(self, function: Function, step: Step) -> Value:
        """What calling a function of the program gives."""


def member(reading: Reading, owner: Value, node: ast.Attribute) -> Value:
    """What ``owner.attr`` stands for."""
    name = node.attr
    match owner:
        case Session():
            return _of_session(owner, node)
        case Imported():
            return Imported(f"{owner.name}.{name}")
        case Frame():
            return _of_frame(reading, owner, node)
        case Streams() if name == "active":
            return Streams(listed=True)
        case Query() if name == "status":
            return Status()
        case Query() if name == "lastProgress":
            return Progress()
        case Query() if name == "recentProgress":
            return Several((Progress(),))
        case _:
            return Bound(owner, name, node)


def _of_session(owner: Session, node: ast.Attribute) -> Value:
    match node.attr:
        case "read" | "readStream":
            return Reader(streaming=node.attr == "readStream")
        case "streams":
            return Streams()
        case "conf":
            return Conf()
        case _:
            return Bound(owner, node.attr, node)


def _of_frame(reading: Reading, frame: Frame, node: ast.Attribute) -> Value:
    match node.attr:
        case "writeStream":
            # Nothing but a stream has it: what the frame begins with is one, where that is in doubt.
            roots = [part.root for part in frame.lineage() if part.root is not None and part.streaming is None]
            if frame.streaming is None and len(roots) == 1 and roots[0] is not None:
                reading.facts.streaming_roots.add(roots[0])
            return Writer(frame, streaming=True, node=node)
        case "write":
            return Writer(frame, streaming=False, node=node)
        case "na":
            # Its methods are those of the frame, by other names.
            return frame
        case "sparkSession":
            return Session(own=frame.from_batch)
        case attr if frame.root is not None and frame.step is None and attr in methods.OF_QUERIES:
            reading.facts.query_roots.add(frame.root)
            return Bound(frame, node.attr, node)
        case _:
            return Bound(frame, node.attr, node)


def called(reading: Reading, function: Value, step: Step) -> Value:  # noqa: C901, PLR0912 - a case for each kind
    """What a call gives."""
    match function:
        case Bound(of=Session()):
            return _session_call(reading, step)
        case Bound(of=Reader() as reader):
            return _reader_call(reader, step)
        case Bound(of=Frame() as frame):
            return _frame_call(reading, frame, step)
        case Bound(of=Grouped() as grouped):
            return _grouped_call(grouped, step)
        case Bound(of=Writer() as writer):
            return _writer_call(reading, writer, step)
        case Bound(of=DeltaTarget() as target):
            found = replace(target, steps=(*target.steps, step))
            if step.name == "execute":
                reading.facts.merged.append(found)
            return found
        case Bound(of=Streams()) if step.name == "get":
            return Query()
        case Reader():
            return function
        case Imported():
            return _imported_call(function.name, step)
        case Function():
            return reading.function_called(function, step)
        case Class():
            return Instance(function)
        case _:
            return Value()


def _session_call(reading: Reading, step: Step) -> Value:
    match step.name:
        case "table":
            view = reading.before.views.get((text_of(step.first) or "").casefold())
            return view if view is not None else Frame(streaming=False, step=step)
        case "createDataFrame" | "range":
            return Frame(streaming=False, step=step)
        case "sql":
            return _query(reading, text_of(step.first), step)
        case "newSession" | "getOrCreate":
            return Session()
        case _:
            return Value()


def _query(reading: Reading, text: str | None, step: Step) -> Value:
    if text is None:
        return Frame(streaming=None, step=step)
    known = reading.before.views
    views = [known[name.casefold()] for name in tables_of(text) if name.casefold() in known]
    if reads_stream(text) or any(view.streaming for view in views):
        return Frame(streaming=True, step=step, parents=tuple(views))
    return Frame(streaming=False if not views else None, step=step, parents=tuple(views))


def _reader_call(reader: Reader, step: Step) -> Value:
    grown = replace(reader, steps=(*reader.steps, step))
    if step.name in methods.LOADING:
        return Frame(streaming=reader.streaming, step=step, reader=grown)
    return grown


def _frame_call(reading: Reading, frame: Frame, step: Step) -> Value:
    if step.name in methods.GROUPING:
        return Grouped(frame, step)
    if step.name == "transform" and isinstance(step.first, Function):
        handed = replace(step, arguments=(frame, *step.arguments[1:]))
        found = reading.function_called(step.first, handed)
        return found if isinstance(found, Frame) else Frame(streaming=frame.streaming, step=step, parents=(frame,))
    if step.name in ("createOrReplaceTempView", "createTempView"):
        reading.view(text_of(step.first) or "", frame)
    if step.name in methods.ACTIONS or step.name in methods.ASIDE:
        # Of what nothing is known, a method of this name may be another one.
        return Value() if frame.streaming is not None else Frame(None, step, (frame,))
    others = tuple(value for value in step.arguments if isinstance(value, Frame)) if step.name in _SEVERAL else ()
    parents = (frame, *others)
    streaming = True if any(part.streaming for part in parents) else None
    if all(part.streaming is False for part in parents):
        streaming = False
    return Frame(streaming=streaming, step=step, parents=parents)


_SEVERAL = methods.named(
    "join crossJoin union unionAll unionByName intersect intersectAll exceptAll subtract lateralJoin"
)


def _grouped_call(grouped: Grouped, step: Step) -> Value:
    if step.name == "pivot":
        return grouped
    parent = Frame(grouped.frame.streaming, grouped.step, (grouped.frame,))
    return Frame(streaming=grouped.frame.streaming, step=step, parents=(parent,))


def _writer_call(reading: Reading, writer: Writer, step: Step) -> Value:
    grown = replace(writer, steps=(*writer.steps, step))
    if writer.streaming and step.name == "foreachBatch":
        reading.batch_function(step.given(0, "func") or Value())
    if writer.streaming and step.name in methods.STARTING:
        reading.started(writer, step)
        return Query()
    if not writer.streaming and step.name in methods.SAVING:
        reading.facts.saved.append((step, grown))
        return Value()
    return grown


def _imported_call(name: str, step: Step) -> Value:
    module, _, last = name.rpartition(".")
    if last in ("getOrCreate", "getActiveSession", "active", "spark_session"):
        return Session()
    if module == FUNCTIONS and last == "broadcast" and isinstance(step.first, Frame):
        marked = replace(step, name="broadcast")
        return Frame(step.first.streaming, marked, (step.first,))
    if of_pipelines(Imported(name)) in ("read", "read_stream", "readStream"):
        return Frame(streaming=last != "read", step=step)
    if module.rpartition(".")[2] == _DELTA and last in ("forName", "forPath"):
        place = step.given(1, "tableOrViewName" if last == "forName" else "path")
        return DeltaTarget(place or (step.first if isinstance(step.first, Literal) else Value()))
    if name in ("os.path.join", "pathlib.Path"):
        parts = [text_of(value) for value in step.arguments]
        return Literal("/".join(part for part in parts if part)) if all(parts) else Value()
    if name == "functools.partial" and isinstance(step.first, Function):
        return step.first
    # Such as SparkSession.builder.appName(...), a chain of another library.
    return Imported(f"{name}()")
