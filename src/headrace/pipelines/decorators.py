"""The decorators and functions of ``from headrace import pipelines as dp``, all implemented by ``_define``.

Names, signatures and defaults follow the vendor's Python reference for declarative pipelines and
``pyspark.pipelines`` of Spark 4.2; if both have a name, the union of their arguments is accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, overload

from headrace.errors import PipelineError
from headrace.model.datasets import PRIVATE_PROPERTY, Dataset, Flow, Kind, PythonQuery
from headrace.model.expectations import Action, Expectation
from headrace.model.location import Location
from headrace.model.refresh import RefreshPolicy
from headrace.pipelines.arguments import column, fitting, place_of, texts
from headrace.pipelines.metrics import metrics_of
from headrace.pipelines.registry import Registry, current_reader, current_registry
from headrace.schedules.clause import USAGE, clause_text, parse_clause
from headrace.schedules.cron import InvalidSchedule

F = TypeVar("F", bound=Callable[[], Any])
Decorator = Callable[[F], F]

# Unsupported arguments of the vendor's decorators and the reasons. They are refused if they have a value.
REFUSED_ARGUMENTS: Mapping[str, str] = {
    "path": "tables are always in the pipeline's storage, together with their checkpoints",
    "row_filter": "row filters are a feature of Unity Catalog; filter the rows in a view",
    "replace_where": "REPLACE WHERE flows are not supported; use a materialized view",
    "cluster_by_auto": "automatic clustering is a Databricks service; set the columns with cluster_by",
}


@overload
def table(query_function: F, /) -> F: ...
@overload
def table(query_function: None = None, /, **options: Any) -> Decorator[F]: ...
def table(query_function: Any = None, /, **options: Any) -> Any:
    """Define a streaming table (the function returns a streaming DataFrame) or a materialized view (a batch one).

    Args:
        query_function: the decorated function, when used without parentheses.
        options: ``name`` (default: the function's), ``comment``, ``schema`` (DDL or StructType),
            ``table_properties``, ``partition_cols``, ``cluster_by``, ``spark_conf``, ``format`` (only ``delta``),
            ``private`` (older: ``temporary``): the table is only for the pipeline; ``schedule``: when it is refreshed,
            as SQL says it: ``SCHEDULE EVERY 2 HOURS``, ``TRIGGER ON UPDATE``; ``refresh_policy``: how much of a
            materialized view a refresh computes, as for :func:`materialized_view`.

    Raises:
        PipelineError: DEFINITION.OUTSIDE: it was called outside of a pipeline's files.
    """
    return _define(Kind.TABLE, "table", query_function, options)


@overload
def streaming_table(query_function: F, /) -> F: ...
@overload
def streaming_table(query_function: None = None, /, **options: Any) -> Decorator[F]: ...
def streaming_table(query_function: Any = None, /, **options: Any) -> Any:
    """Define a table that appends new rows from its sources; the function returns a streaming DataFrame.

    Options as for :func:`table`.
    """
    return _define(Kind.STREAMING_TABLE, "streaming_table", query_function, options)


@overload
def materialized_view(query_function: F, /) -> F: ...
@overload
def materialized_view(query_function: None = None, /, **options: Any) -> Decorator[F]: ...
def materialized_view(query_function: Any = None, /, **options: Any) -> Any:
    """Define a table that always equals its query over the current inputs; the function returns a batch DataFrame.

    Options as for :func:`table`. With ``refresh_policy="auto"`` (the default), only the groups whose input changed are
    computed if the query allows it and it costs less. ``"incremental"`` does so whatever it costs,
    ``"incremental_strict"`` fails where the whole view would have to be computed, ``"full"`` always computes all of it.
    """
    return _define(Kind.MATERIALIZED_VIEW, "materialized_view", query_function, options)


@overload
def temporary_view(query_function: F, /) -> F: ...
@overload
def temporary_view(query_function: None = None, /, **options: Any) -> Decorator[F]: ...
def temporary_view(query_function: Any = None, /, **options: Any) -> Any:
    """Define a named query, batch or streaming, that other datasets read; nothing is stored.

    Args:
        query_function: the decorated function, when used without parentheses.
        options: ``name``, ``comment``, ``spark_conf`` (applies while the function is called; the flows that read the
            view determine the settings for computing its rows).
    """
    return _define(Kind.TEMPORARY_VIEW, "temporary_view", query_function, options)


view = temporary_view


def create_streaming_table(name: str, **options: Any) -> None:
    """Define a streaming table without a query; flows write to it.

    Args:
        name: the table's name, with one to three parts.
        options: as for :func:`table`, and ``expect_all``, ``expect_all_or_drop``, ``expect_all_or_fail``,
            ``expect_all_or_quarantine``: mappings from names to predicates; ``metrics``: a mapping from names to
            aggregates, as in :func:`headrace.pipelines.metric`.
    """
    registry = current_registry("create_streaming_table")
    location = registry.here()
    expectations = [
        expectation
        for argument, action in _EXPECT_ARGUMENTS.items()
        for expectation in _expectations(options.pop(argument, None) or {}, action, location)
    ]
    options = fitting(registry, "create_streaming_table", location, options)
    metrics = metrics_of(registry, options.pop("metrics", None) or {}, location)
    dataset = _dataset(registry, Kind.STREAMING_TABLE, "create_streaming_table", name, location, options, expectations)
    if dataset is not None:
        registry.add_dataset(replace(dataset, metrics=metrics), None)


def expect(name: str, inv: Any) -> Decorator[F]:
    """Count the rows that violate *inv* (SQL text or a Column), and keep them."""
    return _expect({name: inv}, Action.WARN)


def expect_or_drop(name: str, inv: Any) -> Decorator[F]:
    """Count the rows that violate *inv*, and drop them."""
    return _expect({name: inv}, Action.DROP)


def expect_or_fail(name: str, inv: Any) -> Decorator[F]:
    """Fail the flow at the first row that violates *inv*, before anything is written."""
    return _expect({name: inv}, Action.FAIL)


def expect_or_quarantine(name: str, inv: Any) -> Decorator[F]:
    """Move the rows that violate *inv* to ``<dataset>_quarantine``."""
    return _expect({name: inv}, Action.QUARANTINE)


def expect_all(expectations: Mapping[str, Any]) -> Decorator[F]:
    """:func:`expect` for each entry."""
    return _expect(expectations, Action.WARN)


def expect_all_or_drop(expectations: Mapping[str, Any]) -> Decorator[F]:
    """:func:`expect_or_drop` for each entry."""
    return _expect(expectations, Action.DROP)


def expect_all_or_fail(expectations: Mapping[str, Any]) -> Decorator[F]:
    """:func:`expect_or_fail` for each entry."""
    return _expect(expectations, Action.FAIL)


def expect_all_or_quarantine(expectations: Mapping[str, Any]) -> Decorator[F]:
    """:func:`expect_or_quarantine` for each entry."""
    return _expect(expectations, Action.QUARANTINE)


def read(name: str) -> Any:
    """A dataset of the pipeline as a batch DataFrame; call it inside a query function."""
    return current_reader("read").read(name)


def read_stream(name: str) -> Any:
    """A dataset of the pipeline as a streaming DataFrame; call it inside a query function."""
    return current_reader("read_stream").read_stream(name)


def enable_local_execution() -> None:
    """Has no effect. It exists for files that call the vendor's function."""


_EXPECT_ARGUMENTS = {
    "expect_all": Action.WARN,
    "expect_all_or_drop": Action.DROP,
    "expect_all_or_fail": Action.FAIL,
    "expect_all_or_quarantine": Action.QUARANTINE,
}
_DATASET_OPTIONS = {
    "name",
    "comment",
    "schema",
    "table_properties",
    "partition_cols",
    "cluster_by",
    "spark_conf",
    "format",
    "schedule",
    "refresh_policy",
}
# Options of stored tables, which views do not have.
_STORED_OPTIONS = {"schema", "table_properties", "partition_cols", "cluster_by", "format", "schedule", "refresh_policy"}
# Options of tables; both have the same meaning.
_PRIVATE_OPTIONS = {"private", "temporary"}


def _define(kind: Kind, word: str, query_function: Any, options: dict[str, Any]) -> Any:
    """Declare a dataset and its own flow; implements every dataset decorator."""
    registry = current_registry(word)
    location = registry.here()
    # The vendor's decorators also take the function as a keyword.
    query_function = options.pop("query_function", query_function)
    options = fitting(registry, word, location, options)

    def declare(function: F) -> F:
        place = place_of(function, registry, location)
        name = options.get("name") or function.__name__
        dataset = _dataset(registry, kind, word, name, place, options, [])
        if dataset is not None:
            registry.add_dataset(dataset, function)
            registry.add_flow(
                Flow(
                    name=str(dataset.name),
                    target=dataset.name,
                    query=PythonQuery(function, registry.naming),
                    location=place,
                    spark_conf=texts(options.get("spark_conf")),
                ),
            )
        return function

    if query_function is None:
        return declare
    if not callable(query_function):
        registry.problems.append(PipelineError("DEFINITION.NOT_CALLABLE", location=location, what=word))
        return query_function
    return declare(query_function)


def _dataset(
    registry: Registry,
    kind: Kind,
    word: str,
    name: str,
    location: Location,
    options: Mapping[str, Any],
    expectations: Sequence[Expectation],
) -> Dataset | None:
    canonical = registry.name(name, location)
    for option, value in options.items():
        _check_option(registry, word, option, value, location)
    if canonical is None:
        return None
    return Dataset(
        name=canonical,
        kind=kind,
        location=location,
        comment=options.get("comment"),
        schema=options.get("schema"),
        properties=_properties(options),
        partition_by=_columns(options.get("partition_cols")),
        cluster_by=_columns(options.get("cluster_by")),
        expectations=tuple(expectations),
        schedule=_schedule(registry, options.get("schedule"), location),
        refresh_policy=_refresh_policy(registry, word, options.get("refresh_policy"), location),
    )


def _refresh_policy(registry: Registry, word: str, text: str | None, location: Location) -> RefreshPolicy:
    """The policy with a name; a problem if it is unknown."""
    if text is None:
        return RefreshPolicy.AUTO
    try:
        return RefreshPolicy(text.casefold())
    except ValueError:
        known = ", ".join(f'"{policy.value}"' for policy in RefreshPolicy)
        given = {"what": word, "argument": "refresh_policy", "value": repr(text), "expected": f"one of {known}"}
        registry.problems.append(PipelineError("DEFINITION.WRONG_TYPE", location=location, **given))
        return RefreshPolicy.AUTO


def _schedule(registry: Registry, text: str | None, location: Location) -> str:
    """The clause of a schedule in its stored form; a problem if it is invalid."""
    if text is None:
        return ""
    try:
        return clause_text(parse_clause(text))
    except InvalidSchedule as invalid:
        given = {"clause": text, "reason": str(invalid), "usage": USAGE}
        registry.problems.append(PipelineError("SCHEDULE.INVALID", location=location, **given))
        return ""


def _check_option(registry: Registry, word: str, option: str, value: Any, location: Location) -> None:
    if option == "format" and str(value or "delta").lower() != "delta":
        registry.problems.append(PipelineError("UNSUPPORTED.FORMAT", location=location, what=word, format=value))
    elif option in _STORED_OPTIONS and word in ("temporary_view", "view"):
        reason = "a temporary view is not stored, and has the columns of its query"
        registry.problems.append(
            PipelineError("UNSUPPORTED.ARGUMENT", location=location, what=word, argument=option, reason=reason)
        )
    elif option == "refresh_policy" and word in ("streaming_table", "create_streaming_table"):
        if value and str(value).casefold() != "auto":
            reason = "a streaming table reads only what is new; the policy is for materialized views"
            registry.problems.append(
                PipelineError("UNSUPPORTED.ARGUMENT", location=location, what=word, argument=option, reason=reason)
            )
    elif option in REFUSED_ARGUMENTS:
        if value:
            registry.problems.append(
                PipelineError(
                    "UNSUPPORTED.ARGUMENT",
                    location=location,
                    what=word,
                    argument=option,
                    reason=REFUSED_ARGUMENTS[option],
                )
            )
    elif option in _PRIVATE_OPTIONS and word not in ("temporary_view", "view"):
        pass
    elif option not in _DATASET_OPTIONS:
        registry.problems.append(
            PipelineError("DEFINITION.UNKNOWN_ARGUMENT", location=location, what=word, argument=option)
        )


def _expect(predicates: Mapping[str, Any], action: Action) -> Decorator[F]:
    registry = current_registry("expect")
    expectations = _expectations(predicates, action, registry.here())

    def attach(function: F) -> F:
        registry.add_expectations(function, expectations)
        return function

    return attach


def _expectations(predicates: Mapping[str, Any], action: Action, location: Location) -> list[Expectation]:
    if not isinstance(predicates, Mapping):
        given = {"what": "expect_all", "argument": "expectations", "value": repr(predicates)}
        raise PipelineError(
            "DEFINITION.WRONG_TYPE", location=location, expected="a mapping of names to conditions", **given
        )
    return [Expectation(str(name), action, predicate, location) for name, predicate in predicates.items()]


def _columns(value: Any) -> tuple[str, ...]:
    return tuple(map(column, (value,) if isinstance(value, str) else value or ()))


def _properties(options: Mapping[str, Any]) -> Mapping[str, str]:
    properties = dict(texts(options.get("table_properties")))
    if any(options.get(option) for option in _PRIVATE_OPTIONS):
        properties[PRIVATE_PROPERTY] = "true"
    return properties
