"""Writers in a notebook session: three-part names, automatic schemas, checkpoints for streams that name none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

from headrace.model.location import Location
from headrace.spark.analysis.distinct_counts import with_distinct_counts
from headrace.spark.notebook.arguments import with_first
from headrace.spark.notebook.call_origin import called_from
from headrace.spark.notebook.checkpoints import Identity, check_beginning, sources_of
from headrace.spark.notebook.console import console_printer
from headrace.spark.notebook.notebook_session import NotebookSession, StartedQuery, notebook_for
from headrace.spark.notebook.stream_retry import retried
from headrace.spark.preparation.state_formats import format_at
from headrace.spark.session.scoped_confs import with_confs

# Attributes of a stream writer: the arguments it was given, by the name of the method, and its options.
_GIVEN_ARGUMENTS, _OPTIONS = "_headrace_arguments", "_headrace_options"
# Attribute of a stream writer: the options that we have set.
_OURS = "_headrace_ours"
# Delta supports optimizeWrite as an option, but this only as a setting.
_AS_CONFS = {"autocompact": "spark.databricks.delta.autoCompact.enabled"}
_CHECKPOINT = "checkpointLocation"
# Spark gives these a temporary checkpoint, because they only show rows.
_SHOWN = frozenset(("console", "memory", "noop"))


def recording(name: str) -> Callable[[Any], Any]:
    """Wrap a method of a stream writer whose first argument is recorded for the start."""

    def wrapping(original: Any) -> Any:
        @wraps(original)
        def recorded(self: Any, *arguments: Any, **options: Any) -> Any:
            given = arguments[0] if arguments else next(iter(options.values()), None)
            vars(self).setdefault(_GIVEN_ARGUMENTS, {})[name] = given
            if name == "foreachBatch" and callable(given) and notebook_for(self._spark) is not None:
                return original(self, _raising(given))
            return original(self, *arguments, **options)

        return recorded

    return wrapping


def _raising(function: Callable[..., Any]) -> Callable[[Any, int], None]:
    """A batch function whose ``sys.exit()`` fails the query; otherwise Java would wait for its answer forever."""

    def called(batch: Any, number: int) -> None:
        try:
            function(batch, number)
        except SystemExit as exit_:
            raise RuntimeError(f"sys.exit({exit_.code!r}) was called for a batch") from exit_

    return called


def mapping_option(original: Any) -> Any:
    """Wrap ``option`` of a reader or writer: maps paths, and records the option."""

    @wraps(original)
    def mapping(self: Any, key: str, value: Any) -> Any:
        notebook = notebook_for(self._spark)
        if notebook is not None:
            value = notebook.paths.map_option(key, value)
        vars(self).setdefault(_OPTIONS, {})[key.casefold()] = value
        return original(self, key, value)

    return mapping


def mapping_options(original: Any) -> Any:
    """Wrap ``options`` of a reader or writer in the same way."""

    @wraps(original)
    def mapping(self: Any, **options: Any) -> Any:
        notebook = notebook_for(self._spark)
        if notebook is not None:
            options = {key: notebook.paths.map_option(key, value) for key, value in options.items()}
        vars(self).setdefault(_OPTIONS, {}).update({key.casefold(): value for key, value in options.items()})
        return original(self, **options)

    return mapping


def mapping_path(original: Any) -> Any:
    """Wrap a method of a reader or writer whose first argument is one or several paths, to map them."""

    @wraps(original)
    def mapping(self: Any, *arguments: Any, **options: Any) -> Any:
        notebook = notebook_for(self._spark)
        if notebook is not None:
            arguments = (*(_mapped(notebook, value) for value in arguments[:1]), *arguments[1:])
            options = {key: notebook.paths.map_option(key, value) for key, value in options.items()}
        return original(self, *arguments, **options)

    return mapping


def mapping_paths(original: Any) -> Any:
    """Wrap ``parquet`` of a reader, whose arguments are all paths, to map them."""

    @wraps(original)
    def mapping(self: Any, *paths: Any, **options: Any) -> Any:
        notebook = notebook_for(self._spark)
        return original(self, *(paths if notebook is None else (_mapped(notebook, path) for path in paths)), **options)

    return mapping


def with_options_as_confs(original: Any) -> Any:
    """Wrap a writing method of a batch writer: applies the vendor's options that are settings in Delta."""

    @wraps(original)
    def writing(self: Any, *arguments: Any, **options: Any) -> Any:
        notebook = notebook_for(self._spark)
        confs = {} if notebook is None else _confs_of({**vars(self).get(_OPTIONS, {}), **options})
        with with_confs(self._spark, confs):
            return original(self, *arguments, **options)

    return writing


def named_for_writing(original: Any) -> Any:
    """Wrap a method whose first argument is a table to write: creates its schema."""

    @wraps(original)
    def writing(self: Any, *given: Any, **options: Any) -> Any:
        notebook = notebook_for(getattr(self, "_spark", None) or self.sparkSession)
        name, others, options = with_first(given, options)
        return original(self, name if notebook is None else notebook.names.resolve_for_write(name), *others, **options)

    return writing


def starting(original: Any) -> Any:
    """Wrap ``start`` of a stream writer."""

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
        notebook = notebook_for(self._spark)
        if notebook is None:
            return original(self, path, format, outputMode, partitionBy, queryName, **options)
        if format is not None:
            self.format(format)
        if path is not None:
            options["path"] = path
        arguments = vars(self).get(_GIVEN_ARGUMENTS, {})
        if str(arguments.get("format")).casefold() == "console" and arguments.get("continuous"):
            notebook.once("a stream with a continuous trigger prints in Java: what it shows is in Spark's log")
        elif str(arguments.get("format")).casefold() == "console":
            self.foreachBatch(console_printer({**vars(self).get(_OPTIONS, {}), **_folded(options)}))
        return _started(
            notebook,
            self,
            path,
            queryName,
            options,
            lambda more: original(self, outputMode=outputMode, partitionBy=partitionBy, queryName=queryName, **more),
        )

    return start


def starting_table(original: Any) -> Any:
    """Wrap ``toTable`` of a stream writer."""

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
        notebook = notebook_for(self._spark)
        if notebook is None:
            return original(self, tableName, format, outputMode, partitionBy, queryName, **options)
        name = notebook.names.resolve_for_write(tableName)
        return _started(
            notebook,
            self,
            tableName,
            queryName,
            options,
            lambda more: original(self, name, format, outputMode, partitionBy, queryName, **more),
        )

    return start


def counting(original: Any) -> Any:
    """Wrap ``writeStream`` of frames, so that a stream can count distinct values, which Spark refuses."""

    def write_stream(self: Any) -> Any:
        return original.fget(self if notebook_for(self.sparkSession) is None else with_distinct_counts(self))

    return property(write_stream, doc=original.__doc__)


def hurrying(original: Any) -> Any:
    """Wrap ``trigger`` of a stream writer: ignores intervals if the script runs until its streams are idle."""

    @wraps(original)
    def trigger(self: Any, **given: Any) -> Any:
        notebook = notebook_for(self._spark)
        if notebook is not None and notebook.ignores_trigger_intervals and given.get("processingTime"):
            notebook.once("intervals of triggers are left out: the script runs until its streams are idle")
            given = {**given, "processingTime": "0 seconds"}
        vars(self).setdefault(_GIVEN_ARGUMENTS, {})["continuous"] = given.get("continuous")
        return original(self, **given)

    return trigger


def table(self: Any, tableName: str, **options: Any) -> Any:  # noqa: N803 - the vendor's name
    """``table`` of a stream writer: the vendor's name for ``toTable``; only in notebook sessions."""
    if notebook_for(self._spark) is None:
        raise AttributeError(f"{type(self).__name__!r} object has no attribute 'table'")
    return self.toTable(tableName, **options)


def _folded(options: Mapping[str, Any]) -> dict[str, Any]:
    return {key.casefold(): value for key, value in options.items()}


def _mapped(notebook: NotebookSession, path: Any) -> Any:
    if isinstance(path, list | tuple):
        return type(path)(_mapped(notebook, one) for one in path)
    return notebook.paths.map_path(path) if isinstance(path, str) else path


def _started(
    notebook: NotebookSession,
    writer: Any,
    target: str | None,
    name: str | None,
    options: dict[str, Any],
    start: Callable[[dict[str, Any]], Any],
) -> Any:
    arguments, ours = vars(writer).get(_GIVEN_ARGUMENTS, {}), vars(writer).setdefault(_OURS, set())
    # A writer may start several streams: options that we set for one do not apply to the next.
    kept = {key: value for key, value in vars(writer).get(_OPTIONS, {}).items() if key not in ours}
    options = {key: notebook.paths.map_option(key, value) for key, value in options.items()}
    given = {**kept, **_folded(options)}
    name = name or arguments.get("queryName")
    frame = writer._df  # noqa: SLF001 - has no public form
    fingerprint = notebook.fingerprints.of(frame, arguments.get("foreachBatch"), arguments.get("foreach"))
    identity = Identity(_target(arguments, given, target), sources_of(frame), fingerprint)
    file, line = called_from()
    folder = None
    if _names_no_checkpoint(arguments, given):
        root = _root_of_checkpoints(notebook)
        folder = notebook.checkpoints.of(name, identity, (file, line), root)
        options[_CHECKPOINT] = str(folder)
        ours.add(_CHECKPOINT.casefold())
        notebook.once(f'query "{name or identity.target}" keeps its progress in {folder}')
    checkpoint = str(options.get(_CHECKPOINT) or given.get(_CHECKPOINT.casefold()) or "")
    if _names_no_target(arguments, given, target):
        ours.add("path")
        options["path"] = str(notebook.checkpoints.unnamed_target(Path(checkpoint).name))
        notebook.once(f"a stream names neither a table nor a path, and its rows go to {options['path']}")
    started = StartedQuery(None, name or identity.target, Location(file, line))
    confs = _confs_of({**given, **options})

    def begin() -> Any:
        check_beginning(checkpoint)
        state = format_at(notebook.session, checkpoint, confs) if checkpoint else {}
        with with_confs(notebook.session, {**confs, **state}):
            return start(options)

    query = retried(notebook, started.name, started.location, begin)
    if folder is not None:
        notebook.checkpoints.started(folder, query)
    notebook.queries.append(replace(started, query=query))
    return query


def _confs_of(options: Mapping[str, Any]) -> dict[str, str]:
    """The settings for options of the vendor's writers; a query keeps the settings of its start."""
    found = _folded(options)
    return {conf: str(found[key]).lower() for key, conf in _AS_CONFS.items() if key in found}


def _names_no_checkpoint(arguments: dict[str, Any], given: dict[str, Any]) -> bool:
    return _CHECKPOINT.casefold() not in given and str(arguments.get("format", "")).casefold() not in _SHOWN


def _root_of_checkpoints(notebook: NotebookSession) -> str | None:
    """The local checkpoint folder in the session's settings, or None."""
    named = notebook.session.conf.get("spark.sql.streaming.checkpointLocation", None)
    mapped = None if named is None else notebook.paths.map_path(named)
    return None if mapped is None or "://" in mapped else mapped.removeprefix("file:")


def _names_no_target(arguments: dict[str, Any], given: dict[str, Any], target: str | None) -> bool:
    """True for a stream into Delta, explicitly or by default, without a target."""
    into_delta = str(arguments.get("format") or "delta").casefold() == "delta"
    return into_delta and not (target or given.get("path") or arguments.get("foreachBatch") or arguments.get("foreach"))


def _target(arguments: dict[str, Any], given: dict[str, Any], target: str | None) -> str:
    """The target of a stream as a text: a table, a path, a topic, or the user's function."""
    for method in ("foreachBatch", "foreach"):
        function = arguments.get(method)
        if function is not None:
            return f"{method}-{getattr(function, '__qualname__', type(function).__name__)}"
    location = target or given.get("path") or given.get("topic")
    return str(location or arguments.get("format") or "default")
