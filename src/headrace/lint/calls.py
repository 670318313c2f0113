"""Values of attributes and calls, by the value of their owner."""

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


class Recorder(Protocol):
    """The part of an evaluation pass that calls need."""

    facts: Any
    before: Any

    def note_stream(self, writer: Writer, step: Step) -> None:
        """Record that a stream is started."""

    def note_batch_function(self, value: Value) -> None:
        """Record the function passed to ``foreachBatch``."""

    def note_view(self, name: str, frame: Frame) -> None:
        """Record that a frame is a view with this name."""

    def call_function(self, function: Function, step: Step) -> Value:
        """The value that a call of one of the program's functions returns."""


def member(recorder: Recorder, owner: Value, node: ast.Attribute) -> Value:
    """The value of ``owner.attr``."""
    name = node.attr
    match owner:
        case Session():
            return _of_session(owner, node)
        case Imported():
            return Imported(f"{owner.name}.{name}")
        case Frame():
            return _of_frame(recorder, owner, node)
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


def _of_frame(recorder: Recorder, frame: Frame, node: ast.Attribute) -> Value:
    match node.attr:
        case "writeStream":
            # Only a stream has this attribute. So an unknown root of the frame is a stream.
            roots = [part.root for part in frame.lineage() if part.root is not None and part.streaming is None]
            if frame.streaming is None and len(roots) == 1 and roots[0] is not None:
                recorder.facts.streaming_roots.add(roots[0])
            return Writer(frame, streaming=True, node=node)
        case "write":
            return Writer(frame, streaming=False, node=node)
        case "na":
            # Its methods are aliases of the frame's own.
            return frame
        case "sparkSession":
            return Session(own=frame.from_batch)
        case attr if frame.root is not None and frame.step is None and attr in methods.QUERY_ONLY:
            recorder.facts.query_roots.add(frame.root)
            return Bound(frame, node.attr, node)
        case _:
            return Bound(frame, node.attr, node)


def called(recorder: Recorder, function: Value, step: Step) -> Value:  # noqa: C901, PLR0912 - a case for each kind
    """The value that a call returns."""
    match function:
        case Bound(of=Session()):
            return _session_call(recorder, step)
        case Bound(of=Reader() as reader):
            return _reader_call(reader, step)
        case Bound(of=Frame() as frame):
            return _frame_call(recorder, frame, step)
        case Bound(of=Grouped() as grouped):
            return _grouped_call(grouped, step)
        case Bound(of=Writer() as writer):
            return _writer_call(recorder, writer, step)
        case Bound(of=DeltaTarget() as target):
            found = replace(target, steps=(*target.steps, step))
            if step.name == "execute":
                recorder.facts.merged.append(found)
            return found
        case Bound(of=Streams()) if step.name == "get":
            return Query()
        case Reader():
            return function
        case Imported():
            return _imported_call(function.name, step)
        case Function():
            return recorder.call_function(function, step)
        case Class():
            return Instance(function)
        case _:
            return Value()


def _session_call(recorder: Recorder, step: Step) -> Value:
    match step.name:
        case "table":
            view = recorder.before.views.get((text_of(step.first) or "").casefold())
            return view if view is not None else Frame(streaming=False, step=step)
        case "createDataFrame" | "range":
            return Frame(streaming=False, step=step)
        case "sql":
            return _query(recorder, text_of(step.first), step)
        case "newSession" | "getOrCreate":
            return Session()
        case _:
            return Value()


def _query(recorder: Recorder, text: str | None, step: Step) -> Value:
    if text is None:
        return Frame(streaming=None, step=step)
    known = recorder.before.views
    views = [known[name.casefold()] for name in tables_of(text) if name.casefold() in known]
    if reads_stream(text) or any(view.streaming for view in views):
        return Frame(streaming=True, step=step, parents=tuple(views))
    return Frame(streaming=False if not views else None, step=step, parents=tuple(views))


def _reader_call(reader: Reader, step: Step) -> Value:
    extended = replace(reader, steps=(*reader.steps, step))
    if step.name in methods.LOADING:
        return Frame(streaming=reader.streaming, step=step, reader=extended)
    return extended


def _frame_call(recorder: Recorder, frame: Frame, step: Step) -> Value:
    if step.name in methods.GROUPING:
        return Grouped(frame, step)
    if step.name == "transform" and isinstance(step.first, Function):
        handed = replace(step, arguments=(frame, *step.arguments[1:]))
        found = recorder.call_function(step.first, handed)
        return found if isinstance(found, Frame) else Frame(streaming=frame.streaming, step=step, parents=(frame,))
    if step.name in ("createOrReplaceTempView", "createTempView"):
        recorder.note_view(text_of(step.first) or "", frame)
    if step.name in methods.ACTIONS or step.name in methods.NO_FRAME:
        # On an unknown value, a method of this name may be a different one.
        return Value() if frame.streaming is not None else Frame(None, step, (frame,))
    others = tuple(value for value in step.arguments if isinstance(value, Frame)) if step.name in _SEVERAL else ()
    parents = (frame, *others)
    streaming = True if any(part.streaming for part in parents) else None
    if all(part.streaming is False for part in parents):
        streaming = False
    return Frame(streaming=streaming, step=step, parents=parents)


_SEVERAL = methods.name_set(
    "join crossJoin union unionAll unionByName intersect intersectAll exceptAll subtract lateralJoin"
)


def _grouped_call(grouped: Grouped, step: Step) -> Value:
    if step.name == "pivot":
        return grouped
    parent = Frame(grouped.frame.streaming, grouped.step, (grouped.frame,))
    return Frame(streaming=grouped.frame.streaming, step=step, parents=(parent,))


def _writer_call(recorder: Recorder, writer: Writer, step: Step) -> Value:
    extended = replace(writer, steps=(*writer.steps, step))
    if writer.streaming and step.name == "foreachBatch":
        recorder.note_batch_function(step.argument(0, "func") or Value())
    if writer.streaming and step.name in methods.STARTING:
        recorder.note_stream(writer, step)
        return Query()
    if not writer.streaming and step.name in methods.SAVING:
        recorder.facts.saved.append((step, extended))
        return Value()
    return extended


def _imported_call(name: str, step: Step) -> Value:
    module, _, last = name.rpartition(".")
    if last in ("getOrCreate", "getActiveSession", "active", "spark_session"):
        return Session()
    if module == FUNCTIONS and last == "broadcast" and isinstance(step.first, Frame):
        has_watermark = replace(step, name="broadcast")
        return Frame(step.first.streaming, has_watermark, (step.first,))
    if of_pipelines(Imported(name)) in ("read", "read_stream", "readStream"):
        return Frame(streaming=last != "read", step=step)
    if module.rpartition(".")[2] == _DELTA and last in ("forName", "forPath"):
        name_or_path = step.argument(1, "tableOrViewName" if last == "forName" else "path")
        return DeltaTarget(name_or_path or (step.first if isinstance(step.first, Literal) else Value()))
    if name in ("os.path.join", "pathlib.Path"):
        parts = [text_of(value) for value in step.arguments]
        return Literal("/".join(part for part in parts if part)) if all(parts) else Value()
    if name == "functools.partial" and isinstance(step.first, Function):
        return step.first
    # For example SparkSession.builder.appName(...), or a chain of another library.
    return Imported(f"{name}()")
