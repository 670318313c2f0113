"""The target of a statement outside of pipelines: the table, view or schema that it writes, creates, drops or reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from headrace.sql.lexer import Token

# Words that may occur between a verb and the name of its target.
_BETWEEN = frozenset(
    ("OR", "REPLACE", "EXTERNAL", "TEMP", "TEMPORARY", "GLOBAL", "TABLE", "VIEW", "IF", "NOT", "EXISTS", "INTO")
)
# The verbs with one table or view as target, with the words that may precede its name.
_TABLE_VERBS: dict[str, frozenset[str]] = {
    "ALTER": _BETWEEN,
    "ANALYZE": _BETWEEN,
    "CACHE": _BETWEEN | {"LAZY"},
    "CREATE": _BETWEEN,
    "DELETE": frozenset(("FROM",)),
    "DESC": frozenset(("TABLE", "EXTENDED", "FORMATTED", "DETAIL", "HISTORY")),
    "DESCRIBE": frozenset(("TABLE", "EXTENDED", "FORMATTED", "DETAIL", "HISTORY")),
    "DROP": _BETWEEN,
    "FSCK": frozenset(("REPAIR", "TABLE")),
    "INSERT": frozenset(("INTO", "OVERWRITE", "TABLE", "WITH", "SCHEMA", "EVOLUTION")),
    "MERGE": frozenset(("INTO", "WITH", "SCHEMA", "EVOLUTION")),
    "MSCK": frozenset(("REPAIR", "TABLE")),
    "OPTIMIZE": frozenset(),
    "REFRESH": frozenset(("TABLE",)),
    "REORG": frozenset(("TABLE",)),
    "REPLACE": _BETWEEN,
    "RESTORE": frozenset(("TABLE", "TO")),
    "TRUNCATE": frozenset(("TABLE",)),
    "UNCACHE": _BETWEEN,
    "UPDATE": frozenset(),
    "VACUUM": frozenset(),
}
_CREATING = frozenset(("CREATE", "REPLACE"))
_WRITING = frozenset(("ALTER", "DELETE", "DROP", "INSERT", "MERGE", "REPLACE", "RESTORE", "TRUNCATE", "UPDATE"))
_SCHEMAS = ("SCHEMA", "DATABASE", "NAMESPACE")
_QUERIES = frozenset(("FROM", "QUERY", "SELECT", "VALUES", "WITH"))
# Statements that are only valid in pipelines.
_OF_PIPELINES = (
    ("CREATE", "STREAMING"),
    ("CREATE", "LIVE"),
    ("CREATE", "MATERIALIZED"),
    ("CREATE", "FLOW"),
    ("CREATE", "INCREMENTAL"),
    ("REFRESH", "STREAMING"),
    ("REFRESH", "MATERIALIZED"),
    ("APPLY", "CHANGES"),
    ("AUTO", "CDC"),
)


class TargetKind(Enum):
    """The kind of a statement's target."""

    TABLE = "table"
    SCHEMA = "schema"
    CATALOG = "catalog"
    # No named target: a query, SET, SHOW TABLES.
    OTHER = "other"
    # Only valid in a pipeline file.
    PIPELINE = "pipeline"


@dataclass(frozen=True)
class Target:
    """The target of a statement: its name is the tokens from ``begin`` up to ``end``.

    ``verb`` is the statement's first word in upper case, ``modifiers`` the words between the verb and the name.
    """

    kind: TargetKind
    verb: str
    begin: int = 0
    end: int = 0
    modifiers: frozenset[str] = frozenset()

    @property
    def creates(self) -> bool:
        """True if the statement creates the target permanently."""
        return self.verb in _CREATING and not self.modifiers & {"TEMP", "TEMPORARY", "GLOBAL"}

    @property
    def writes(self) -> bool:
        """True if the statement changes or may replace the target."""
        return self.verb in _WRITING or self.verb in _CREATING

    def name(self, tokens: Sequence[Token]) -> str:
        """The name as written."""
        return ".".join(token.text for token in tokens[self.begin : self.end : 2])


def target_of(tokens: Sequence[Token]) -> Target:
    """The target of one statement."""
    if not tokens:
        return Target(TargetKind.OTHER, "")
    verb = tokens[0].text.upper()
    words = _words(tokens)
    if verb in ("WITH", "FROM"):
        return _after_query(tokens)
    if any(_follows(words, pair) for pair in _OF_PIPELINES):
        return Target(TargetKind.PIPELINE, verb)
    if verb == "USE":
        return _use(tokens, words)
    if verb == "SET" and words[1:2] == ("CATALOG",):
        return _named(TargetKind.CATALOG, "USE", tokens, 2)
    if verb == "SHOW":
        return _show(tokens, words)
    return _after_verb(tokens, verb, words)


def _after_verb(tokens: Sequence[Token], verb: str, words: tuple[str, ...]) -> Target:
    """The target of a statement with the name after its verb, if it names one."""
    at = 3 if words[1:3] == ("OR", "REPLACE") else 1
    if verb in ("CREATE", "DROP", "ALTER", "DESCRIBE", "DESC") and words[at : at + 1]:
        noun = words[at]
        if noun in _SCHEMAS or noun == "CATALOG":
            kind = TargetKind.CATALOG if noun == "CATALOG" else TargetKind.SCHEMA
            return _named(kind, verb, tokens, at + 1, frozenset(("IF", "NOT", "EXISTS", "EXTENDED")))
        if noun in ("FUNCTION", "VARIABLE") or (verb in ("DESCRIBE", "DESC") and noun in _QUERIES):
            return Target(TargetKind.OTHER, verb)
    if (verb, *words[1:2]) == ("REFRESH", "FUNCTION") or (verb == "INSERT" and "DIRECTORY" in words[1:5]):
        return Target(TargetKind.OTHER, verb)
    if verb not in _TABLE_VERBS or (verb in ("CREATE", "DROP") and not {"TABLE", "VIEW"} & set(words[1:6])):
        return Target(TargetKind.OTHER, verb)
    return _named(TargetKind.TABLE, verb, tokens, 1, _TABLE_VERBS[verb])


def _after_query(tokens: Sequence[Token]) -> Target:
    """The target of a statement that begins with a query: the table that it writes to, if any."""
    depth = 0
    for index, token in enumerate(tokens):
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth == 0 and token.is_word("INSERT", "MERGE", "UPDATE", "DELETE"):
            found = target_of(tokens[index:])
            return replace(found, begin=found.begin + index, end=found.end + index) if found.end else found
    return Target(TargetKind.OTHER, tokens[0].text.upper())


def _show(tokens: Sequence[Token], words: tuple[str, ...]) -> Target:
    at = 3 if words[1:3] == ("TABLE", "EXTENDED") else 2
    lists = words[1:at] in (("TABLES",), ("VIEWS",), ("TABLE", "EXTENDED"))
    if not lists or words[at : at + 1] not in (("IN",), ("FROM",)):
        return Target(TargetKind.OTHER, "SHOW")
    return _named(TargetKind.SCHEMA, "SHOW", tokens, at + 1)


def _use(tokens: Sequence[Token], words: tuple[str, ...]) -> Target:
    if words[1:2] == ("CATALOG",):
        return _named(TargetKind.CATALOG, "USE", tokens, 2)
    return _named(TargetKind.SCHEMA, "USE", tokens, 2 if words[1:2] and words[1] in _SCHEMAS else 1)


def _named(
    kind: TargetKind, verb: str, tokens: Sequence[Token], begin: int, between: frozenset[str] = frozenset()
) -> Target:
    modifiers = set()
    while begin < len(tokens) and tokens[begin].is_word(*between):
        modifiers.add(tokens[begin].text.upper())
        begin += 1
    if begin >= len(tokens) or not (tokens[begin].is_name or tokens[begin].text[:1] in "'\""):
        return Target(TargetKind.OTHER, verb)
    end = begin + 1
    while end + 1 < len(tokens) and tokens[end].is_symbol(".") and tokens[end + 1].is_name:
        end += 2
    return Target(kind, verb, begin, end, frozenset(modifiers))


def _words(tokens: Sequence[Token]) -> tuple[str, ...]:
    return tuple(token.text.upper() for token in tokens[:8])


def _follows(words: tuple[str, ...], pair: tuple[str, str]) -> bool:
    rest = tuple(word for word in words if word not in ("OR", "REPLACE", "REFRESH", "PRIVATE", "TEMPORARY"))
    return rest[:2] == pair or words[:2] == pair
