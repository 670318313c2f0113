"""Settings in a ready session: the vendor's become those of open Spark, static ones are explained."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any

from pyspark.errors import AnalysisException

from headrace.settings.vendor_confs import FIXED, VENDOR_PROPERTIES, Effect, is_static, vendor_conf
from headrace.spark.notebook.notebook_session import NotebookSession, ready_for
from headrace.spark.session.scoped_confs import with_confs
from headrace.sql.lexer import Kind, lex, unquoted

_ANY_PROPERTY = {"spark.databricks.delta.allowArbitraryProperties.enabled": "true"}
_LISTS = ("spark.sql.extensions", "spark.jars.packages", "spark.jars")
# Names that people give, and that nothing depends on.
_NAMES = ("spark.app.name", "spark.app.id")
# Beginnings of names that are no script's own.
_KNOWN = ("spark.sql.", "spark.databricks.")


def setting(original: Any) -> Any:
    """``set`` of a session's settings."""

    @wraps(original)
    def setting_one(self: Any, key: str, value: Any) -> None:
        ready = ready_for(None)
        if ready is None:
            original(self, key, value)
        else:
            apply(ready, str(key), _text(value), lambda k, v: original(self, k, v))

    return setting_one


def building(original: Any) -> Any:
    """``getOrCreate`` of a builder: the ready session, with the builder's settings as far as they can be applied."""

    @wraps(original)
    def get(self: Any) -> Any:
        ready = ready_for(None)
        if ready is None or ready.session.sparkContext._jsc is None:  # noqa: SLF001 - None once it was stopped
            return original(self)
        context = ready.session.sparkContext
        for given, value in dict(self._options).items():
            key = str(given)
            apply(ready, key, _text(value), ready.session.conf.set)
            if not is_static(key) and not key.startswith(_KNOWN):
                # Found in the context's settings too, as if the builder had made it.
                context._conf.set(key, _text(value))  # noqa: SLF001 - what getConf gives is a copy
        return ready.session

    return get


def starting_confs(confs: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Of settings that a script names, those that its session starts with; and remarks on those that it cannot have.

    Those that only the script knows are none of them: they have a value from where the script sets them.
    """
    found: dict[str, str] = {}
    remarks: list[str] = []
    for key, value in confs.items():
        if not is_static(key) or key in _NAMES:
            continue
        if key in FIXED:
            if not _is_deltas(value):
                remarks.append(f"{key} is not taken: {FIXED[key]}")
        elif key in _LISTS:
            kept = [part for part in value.split(",") if part.strip() and not _is_deltas(part)]
            if kept:
                found[key] = ",".join(kept)
        else:
            found[key] = value
    return found, tuple(remarks)


def apply(ready: NotebookSession, key: str, value: str, put: Callable[[str, str], Any]) -> None:
    """Set a setting, in the words of open Spark, with *put*; one that cannot be set is explained once."""
    entry = vendor_conf(key, value)
    # What Delta knows has the vendor's prefix as well.
    known = bool(ready.session._jsparkSession.conf().isModifiable(key))  # noqa: SLF001 - Python's is the same
    if entry is not None and entry.becomes is not None:
        for ours, given in entry.becomes.items():
            put(ours, given.format(value=value))
        if not known:
            put(key, value)
    elif entry is not None and entry.effect is Effect.NONE and not known and not is_static(key):
        ready.once(f"{key} has no effect: {entry.about}")
        put(key, value)
    elif key in FIXED and not known:
        _explain(ready, key, value, ready.session.conf.get(key, None))
    else:
        _put(ready, key, value, put)


def _put(ready: NotebookSession, key: str, value: str, put: Callable[[str, str], Any]) -> None:
    """Set what Spark lets be set; explain what it does not, and what it takes without looking at it again."""
    before = ready.session.conf.get(key, None)
    try:
        put(key, value)
    except AnalysisException as error:
        if not (error.getCondition() or "").startswith("CANNOT_MODIFY"):
            raise
        _explain(ready, key, value, before)
    else:
        # Catalogs are looked up when they are first named.
        if is_static(key) and not key.startswith("spark.sql.") and before != value:
            _explain(ready, key, value, None)


def _explain(ready: NotebookSession, key: str, value: str, now: str | None) -> None:
    """Say once that a setting is read at the start, unless it has the value that is wanted.

    ``now`` is the value that the session has; what Spark was never given has none.
    """
    if key in _NAMES or now == value or _is_deltas(value) or (key in _LISTS and value in (now or "")):
        return
    if key in FIXED:
        ready.once(f"{key} is not taken: {FIXED[key]}")
        return
    said = "is not in force" if now is None else f'stays "{now}"'
    ready.once(
        f"{key} is read when a session starts, and {said}: write it as a literal in the script, or give it to "
        f"spark_session(confs=...) or to spark_conf of a project"
    )


@contextmanager
def taking_properties(ready: NotebookSession, text: str) -> Iterator[None]:
    """Let a statement name properties of tables that only the vendor's Delta knows."""
    named = [name for name in VENDOR_PROPERTIES if name.casefold() in text.casefold()]
    found = [name for name in named if name.casefold() in set(_names_in(text))]
    for name in found:
        ready.once(f"property {name} has no effect: {VENDOR_PROPERTIES[name]}")
    if not found:
        yield
        return
    with with_confs(ready.session, _ANY_PROPERTY):
        yield


def _names_in(text: str) -> Iterator[str]:
    tokens = lex(text).tokens
    for index, token in enumerate(tokens):
        if token.kind is Kind.STRING:
            yield unquoted(token).casefold()
        elif token.is_name:
            end = index + 1
            while end + 1 < len(tokens) and tokens[end].is_symbol(".") and tokens[end + 1].is_name:
                end += 2
            yield "".join(part.text for part in tokens[index:end]).casefold()


def _is_deltas(value: str) -> bool:
    return "io.delta" in value or value.strip() == "org.apache.spark.sql.delta.catalog.DeltaCatalog"


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
