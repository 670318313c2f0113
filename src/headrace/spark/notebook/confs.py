"""Settings in a notebook session: translates the vendor's to open-source Spark's, and explains static ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any

from pyspark.errors import AnalysisException

from headrace.settings.vendor_confs import FIXED, VENDOR_PROPERTIES, Effect, is_static, vendor_conf
from headrace.spark.notebook.notebook_session import NotebookSession, notebook_for
from headrace.spark.session.scoped_confs import with_confs
from headrace.sql.lexer import Kind, lex, unquoted

_ANY_PROPERTY = {"spark.databricks.delta.allowArbitraryProperties.enabled": "true"}
_LISTS = ("spark.sql.extensions", "spark.jars.packages", "spark.jars")
# Names that users choose, and on which nothing depends.
_NAMES = ("spark.app.name", "spark.app.id")
# Prefixes of settings that are not a script's own.
_KNOWN = ("spark.sql.", "spark.databricks.")


def setting(original: Any) -> Any:
    """Wrap ``set`` of a session's settings."""

    @wraps(original)
    def setting_one(self: Any, key: str, value: Any) -> None:
        notebook = notebook_for(None)
        if notebook is None:
            original(self, key, value)
        else:
            apply(notebook, str(key), _text(value), lambda k, v: original(self, k, v))

    return setting_one


def building(original: Any) -> Any:
    """Wrap ``getOrCreate`` of a builder: returns the notebook session and applies the settings that it can."""

    @wraps(original)
    def get(self: Any) -> Any:
        notebook = notebook_for(None)
        if notebook is None or notebook.session.sparkContext._jsc is None:  # noqa: SLF001 - None once it was stopped
            return original(self)
        context = notebook.session.sparkContext
        for given, value in dict(self._options).items():
            key = str(given)
            apply(notebook, key, _text(value), notebook.session.conf.set)
            if not is_static(key) and not key.startswith(_KNOWN):
                # Also visible in the context's settings, as if the builder had created it.
                context._conf.set(key, _text(value))  # noqa: SLF001 - what getConf gives is a copy
        return notebook.session

    return get


def starting_confs(confs: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """The settings in a script that its session must start with, and notices about those that it cannot have.

    The script's own settings are not among them: they take effect where the script sets them.
    """
    found: dict[str, str] = {}
    notices: list[str] = []
    for key, value in confs.items():
        if not is_static(key) or key in _NAMES:
            continue
        if key in FIXED:
            if not _is_deltas(value):
                notices.append(f"{key} is not taken: {FIXED[key]}")
        elif key in _LISTS:
            kept = [part for part in value.split(",") if part.strip() and not _is_deltas(part)]
            if kept:
                found[key] = ",".join(kept)
        else:
            found[key] = value
    return found, tuple(notices)


def apply(notebook: NotebookSession, key: str, value: str, put: Callable[[str, str], Any]) -> None:
    """Set a setting with *put*, translated to open-source Spark; explain once one that cannot be set."""
    entry = vendor_conf(key, value)
    # Delta's own settings have the vendor's prefix too.
    known = bool(notebook.session._jsparkSession.conf().isModifiable(key))  # noqa: SLF001 - Python's is the same
    if entry is not None and entry.becomes is not None:
        for ours, given in entry.becomes.items():
            put(ours, given.format(value=value))
        if not known:
            put(key, value)
    elif entry is not None and entry.effect is Effect.NONE and not known and not is_static(key):
        notebook.once(f"{key} has no effect: {entry.about}")
        put(key, value)
    elif key in FIXED and not known:
        _explain(notebook, key, value, notebook.session.conf.get(key, None))
    else:
        _put(notebook, key, value, put)


def _put(notebook: NotebookSession, key: str, value: str, put: Callable[[str, str], Any]) -> None:
    """Set a setting if Spark allows it; explain it if Spark refuses it, or accepts it without effect."""
    before = notebook.session.conf.get(key, None)
    try:
        put(key, value)
    except AnalysisException as error:
        if not (error.getCondition() or "").startswith("CANNOT_MODIFY"):
            raise
        _explain(notebook, key, value, before)
    else:
        # Catalog settings are exempt: catalogs are loaded when they are first used.
        if is_static(key) and not key.startswith("spark.sql.") and before != value:
            _explain(notebook, key, value, None)


def _explain(notebook: NotebookSession, key: str, value: str, now: str | None) -> None:
    """Explain once that a setting is read at the start, unless it has the wanted value.

    ``now`` is the session's value; None if it was never set.
    """
    if key in _NAMES or now == value or _is_deltas(value) or (key in _LISTS and value in (now or "")):
        return
    if key in FIXED:
        notebook.once(f"{key} is not taken: {FIXED[key]}")
        return
    status = "is not in force" if now is None else f'stays "{now}"'
    notebook.once(
        f"{key} is read when a session starts, and {status}: write it as a literal in the script, or give it to "
        f"spark_session(confs=...) or to spark_conf of a project"
    )


@contextmanager
def allowing_vendor_properties(notebook: NotebookSession, text: str) -> Iterator[None]:
    """Allow a statement to set table properties that only the vendor's Delta supports."""
    named = [name for name in VENDOR_PROPERTIES if name.casefold() in text.casefold()]
    found = [name for name in named if name.casefold() in set(_names_in(text))]
    for name in found:
        notebook.once(f"property {name} has no effect: {VENDOR_PROPERTIES[name]}")
    if not found:
        yield
        return
    with with_confs(notebook.session, _ANY_PROPERTY):
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
