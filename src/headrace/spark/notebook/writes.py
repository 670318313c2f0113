"""Writers in a ready session: three-part names, schemas that come into being, checkpoints for streams without one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

from headrace.model.location import Location
from headrace.spark.analysis.distinct_counts import counting_distinct
from headrace.spark.notebook.arguments import with_first
from headrace.spark.notebook.call_origin import called_from
from headrace.spark.notebook.checkpoints import Identity, check_beginning, sources_of
from headrace.spark.notebook.console import shown
from headrace.spark.notebook.notebook_session import NotebookSession, StartedQuery, ready_for
from headrace.spark.notebook.stream_retry import retried
from headrace.spark.preparation.state_formats import format_at
from headrace.spark.session.scoped_confs import with_confs

# Of a writer of streams: what it was told, by the name of the method, and its options.
_TOLD, _OPTIONS = "_headrace_told", "_headrace_options"
# Of the same: the options that we have given it.
_OURS = "_headrace_ours"
# Delta takes optimizeWrite as an option, and this as a setting alone.
_AS_CONFS = {"autocompact": "spark.databricks.delta.autoCompact.enabled"}
_CHECKPOINT = "checkpointLocation"
# Spark gives these a checkpoint that goes with the query, and a person looks at their rows.
_SHOWN = frozenset(("console", "memory", "noop"))


def noting(name: str) -> Callable[[Any], Any]:
    """Of a writer of streams: a method whose first argument is kept for the start."""

    def wrapping(original: Any) -> Any:
        @wraps(original)
        def telling(self: Any, *arguments: Any, **options: Any) -> Any:
            given = arguments[0] if arguments else next(iter(options.values()), None)
            vars(self).setdefault(_TOLD, {})[name] = given
            if name == "foreachBatch" and callable(given) and ready_for(self._spark) is not None:
                return original(self, _raising(given))
            return original(self, *arguments, **options)

        return telling

    return wrapping


def _raising(function: Callable[..., Any]) -> Callable[[Any, int], None]:
    """A function of batches, whose ``sys.exit()`` fails the query; Java would wait for its answer for ever."""

    def called(batch: Any, number: int) -> None:
        try:
            function(batch, number)
        except SystemExit as left:
            raise RuntimeError(f"sys.exit({left.code!r}) was called for a batch") from left

    return called


def placing_option(original: Any) -> Any:
    """``option`` of a reader or writer: paths are placed, and what was given is kept."""

    @wraps(original)
    def placing(self: Any, key: str, value: Any) -> Any:
        ready = ready_for(self._spark)
        if ready is not None:
            value = ready.places.placed_option(key, value)
        vars(self).setdefault(_OPTIONS, {})[key.casefold()] = value
        return original(self, key, value)

    return placing


def placing_options(original: Any) -> Any:
    """``options`` of a reader or writer: the same."""

    @wraps(original)
    def placing(self: Any, **options: Any) -> Any:
        ready = ready_for(self._spark)
        if ready is not None:
            options = {key: ready.places.placed_option(key, value) for key, value in options.items()}
        vars(self).setdefault(_OPTIONS, {}).update({key.casefold(): value for key, value in options.items()})
        return original(self, **options)

    return placing


def placing_path(original: Any) -> Any:
    """A method of a reader or writer whose first argument is a path, or several: they are placed."""

    @wraps(original)
    def placing(self: Any, *arguments: Any, **options: Any) -> Any:
        ready = ready_for(self._spark)
        if ready is not None:
            arguments = (*(_placed(ready, value) for value in arguments[:1]), *arguments[1:])
            options = {key: ready.places.placed_option(key, value) for key, value in options.items()}
        return original(self, *arguments, **options)

    return placing


def placing_paths(original: Any) -> Any:
    """``parquet`` of a reader, all of whose arguments are paths."""

    @wraps(original)
    def placing(self: Any, *paths: Any, **options: Any) -> Any:
        ready = ready_for(self._spark)
        return original(self, *(paths if ready is None else (_placed(ready, path) for path in paths)), **options)

    return placing


def with_options_as_confs(original: Any) -> Any:
    """A method of a batch's writer that writes: options of the vendor's that are settings of Delta are in force."""

    @wraps(original)
    def writing(self: Any, *arguments: Any, **options: Any) -> Any:
        ready = ready_for(self._spark)
        confs = {} if ready is None else _confs_of({**vars(self).get(_OPTIONS, {}), **options})
        with with_confs(self._spark, confs):
            return original(self, *arguments, **options)

    return writing


def named_for_writing(original: Any) -> Any:
    """A method whose first argument is a table that is written: its schema comes into being."""

    @wraps(original)
    def writing(self: Any, *given: Any, **options: Any) -> Any:
        ready = ready_for(getattr(self, "_spark", None) or self.sparkSession)
        name, others, options = with_first(given, options)
        return original(self, name if ready is None else ready.names.writing(name), *others, **options)

    return writing


def starting(original: Any) -> Any:
    """``start`` of a writer of streams."""

    @wraps(original)
    def start(
        self: Any,
        path: str | None = None,
        format: str | None = None,  # noqa: A002 - Spark's name
        outputMode: str | None = None,  # noqa: N803 - Spark's name
        partitionBy: Any = None,  # noqa: N803 - the same
        queryName: str | None = None,  # noqa: N803 - the same
        **options: Any,
    ) -> Any:
        ready = ready_for(self._spark)
        if ready is None:
            return original(self, path, format, outputMode, partitionBy, queryName, **options)
        if format is not None:
            self.format(format)
        if path is not None:
            options["path"] = path
        told = vars(self).get(_TOLD, {})
        if str(told.get("format")).casefold() == "console" and told.get("continuous"):
            ready.once("a stream with a continuous trigger prints in Java: what it shows is in Spark's log")
        elif str(told.get("format")).casefold() == "console":
            self.foreachBatch(shown({**vars(self).get(_OPTIONS, {}), **_folded(options)}))
        return _started(
            ready,
            self,
            path,
            queryName,
            options,
            lambda more: original(self, outputMode=outputMode, partitionBy=partitionBy, queryName=queryName, **more),
        )

    return start


def starting_table(original: Any) -> Any:
    """``toTable`` of a writer of streams."""

    @wraps(original)
    def start(
        self: Any,
        tableName: str,  # noqa: N803 - Spark's name
        format: str | None = None,  # noqa: A002 - the same
        outputMode: str | None = None,  # noqa: N803 - the same
        partitionBy: Any = None,  # noqa: N803 - the same
        queryName: str | None = None,  # noqa: N803 - the same
        **options: Any,
    ) -> Any:
        ready = ready_for(self._spark)
        if ready is None:
            return original(self, tableName, format, outputMode, partitionBy, queryName, **options)
        name = ready.names.writing(tableName)
        return _started(
            ready,
            self,
            tableName,
            queryName,
            options,
            lambda more: original(self, name, format, outputMode, partitionBy, queryName, **more),
        )

    return start


def counting(original: Any) -> Any:
    """``writeStream`` of frames: distinct values of a stream are counted, which Spark refuses."""

    def write_stream(self: Any) -> Any:
        return original.fget(self if ready_for(self.sparkSession) is None else counting_distinct(self))

    return property(write_stream, doc=original.__doc__)


def hurrying(original: Any) -> Any:
    """``trigger`` of a writer of streams: an interval is left out where a script runs until nothing is left to do."""

    @wraps(original)
    def trigger(self: Any, **given: Any) -> Any:
        ready = ready_for(self._spark)
        if ready is not None and ready.hurries and given.get("processingTime"):
            ready.once("intervals of triggers are left out: the script runs until its streams are idle")
            given = {**given, "processingTime": "0 seconds"}
        vars(self).setdefault(_TOLD, {})["continuous"] = given.get("continuous")
        return original(self, **given)

    return trigger


def table(self: Any, tableName: str, **options: Any) -> Any:  # noqa: N803 - the vendor's name
    """``table`` of a writer of streams: the vendor's name of ``toTable``; elsewhere there is none."""
    if ready_for(self._spark) is None:
        raise AttributeError(f"{type(self).__name__!r} object has no attribute 'table'")
    return self.toTable(tableName, **options)


def _folded(options: Mapping[str, Any]) -> dict[str, Any]:
    return {key.casefold(): value for key, value in options.items()}


def _placed(ready: NotebookSession, path: Any) -> Any:
    if isinstance(path, list | tuple):
        return type(path)(_placed(ready, one) for one in path)
    return ready.places.placed(path) if isinstance(path, str) else path


def _started(
    ready: NotebookSession,
    writer: Any,
    target: str | None,
    name: str | None,
    options: dict[str, Any],
    start: Callable[[dict[str, Any]], Any],
) -> Any:
    told, ours = vars(writer).get(_TOLD, {}), vars(writer).setdefault(_OURS, set())
    # A writer may start several streams: what one was given by us is not the next one's.
    kept = {key: value for key, value in vars(writer).get(_OPTIONS, {}).items() if key not in ours}
    options = {key: ready.places.placed_option(key, value) for key, value in options.items()}
    given = {**kept, **_folded(options)}
    name = name or told.get("queryName")
    frame = writer._df  # noqa: SLF001 - has no public form
    does = ready.fingerprints.of(frame, told.get("foreachBatch"), told.get("foreach"))
    identity = Identity(_target(told, given, target), sources_of(frame), does)
    file, line = called_from()
    folder = None
    if _names_no_checkpoint(told, given):
        root = _root_of_checkpoints(ready)
        folder = ready.checkpoints.of(name, identity, (file, line), root)
        options[_CHECKPOINT] = str(folder)
        ours.add(_CHECKPOINT.casefold())
        ready.once(f'query "{name or identity.target}" keeps its progress in {folder}')
    checkpoint = str(options.get(_CHECKPOINT) or given.get(_CHECKPOINT.casefold()) or "")
    if _names_no_target(told, given, target):
        ours.add("path")
        options["path"] = str(ready.checkpoints.unnamed_target(Path(checkpoint).name))
        ready.once(f"a stream names neither a table nor a path, and its rows go to {options['path']}")
    started = StartedQuery(None, name or identity.target, Location(file, line))
    confs = _confs_of({**given, **options})

    def begin() -> Any:
        check_beginning(checkpoint)
        state = format_at(ready.session, checkpoint, confs) if checkpoint else {}
        with with_confs(ready.session, {**confs, **state}):
            return start(options)

    query = retried(ready, started.name, started.location, begin)
    if folder is not None:
        ready.checkpoints.started(folder, query)
    ready.queries.append(replace(started, query=query))
    return query


def _confs_of(options: Mapping[str, Any]) -> dict[str, str]:
    """What options of the vendor's writers are as settings, which a query takes along when it starts."""
    found = _folded(options)
    return {conf: str(found[key]).lower() for key, conf in _AS_CONFS.items() if key in found}


def _names_no_checkpoint(told: dict[str, Any], given: dict[str, Any]) -> bool:
    return _CHECKPOINT.casefold() not in given and str(told.get("format", "")).casefold() not in _SHOWN


def _root_of_checkpoints(ready: NotebookSession) -> str | None:
    """The local folder of checkpoints that the session's settings name, or None."""
    named = ready.session.conf.get("spark.sql.streaming.checkpointLocation", None)
    placed = None if named is None else ready.places.placed(named)
    return None if placed is None or "://" in placed else placed.removeprefix("file:")


def _names_no_target(told: dict[str, Any], given: dict[str, Any], target: str | None) -> bool:
    """True for a stream into Delta, in words or by default, that names no place."""
    into_delta = str(told.get("format") or "delta").casefold() == "delta"
    return into_delta and not (target or given.get("path") or told.get("foreachBatch") or told.get("foreach"))


def _target(told: dict[str, Any], given: dict[str, Any], target: str | None) -> str:
    """What a stream writes to, as a text: a table, a path, a topic, or the user's function."""
    for method in ("foreachBatch", "foreach"):
        function = told.get(method)
        if function is not None:
            return f"{method}-{getattr(function, '__qualname__', type(function).__name__)}"
    place = target or given.get("path") or given.get("topic")
    return str(place or told.get("format") or "default")
