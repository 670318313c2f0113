"""Which table, view or schema a statement outside of a pipeline is about: what it writes, makes, drops or describes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from headrace.sql.lexer import Token

# Words that may stand between a verb and the name of what it is about.
_BETWEEN = frozenset(
    ("OR", "REPLACE", "EXTERNAL", "TEMP", "TEMPORARY", "GLOBAL", "TABLE", "VIEW", "IF", "NOT", "EXISTS", "INTO")
)
# Each verb about one table or view, with the words that may come before the name.
_ABOUT: dict[str, frozenset[str]] = {
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
_MAKES = frozenset(("CREATE", "REPLACE"))
_WRITES = frozenset(("ALTER", "DELETE", "DROP", "INSERT", "MERGE", "REPLACE", "RESTORE", "TRUNCATE", "UPDATE"))
_SCHEMAS = ("SCHEMA", "DATABASE", "NAMESPACE")
_QUERIES = frozenset(("FROM", "QUERY", "SELECT", "VALUES", "WITH"))
# What the vendor's pipelines have, and nothing outside of a pipeline.
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


class About(Enum):
    """What a statement is about."""

    TABLE = "table"
    SCHEMA = "schema"
    CATALOG = "catalog"
    # Nothing that has a name of its own: a query, SET, SHOW TABLES.
    OTHER = "other"
    # What only a file of a pipeline may say.
    PIPELINE = "pipeline"


@dataclass(frozen=True)
class Target:
    """The name that a statement is about: tokens from ``begin`` up to ``end``.

    ``verb`` is its first word in capitals. ``makes``: the name may be new. ``writes``: it changes what has the name.
    ``modifiers`` are the words between the verb and the name.
    """

    about: About
    verb: str
    begin: int = 0
    end: int = 0
    modifiers: frozenset[str] = frozenset()

    @property
    def makes(self) -> bool:
        """True when the statement makes what has the name, and it lasts."""
        return self.verb in _MAKES and not self.modifiers & {"TEMP", "TEMPORARY", "GLOBAL"}

    @property
    def writes(self) -> bool:
        """True when it changes, or may replace, what has the name."""
        return self.verb in _WRITES or self.verb in _MAKES

    def name(self, tokens: Sequence[Token]) -> str:
        """The name as it stands."""
        return ".".join(token.text for token in tokens[self.begin : self.end : 2])


def target_of(tokens: Sequence[Token]) -> Target:
    """What one statement is about."""
    if not tokens:
        return Target(About.OTHER, "")
    verb = tokens[0].text.upper()
    words = _words(tokens)
    if verb in ("WITH", "FROM"):
        return _behind_query(tokens)
    if any(_follows(words, pair) for pair in _OF_PIPELINES):
        return Target(About.PIPELINE, verb)
    if verb == "USE":
        return _use(tokens, words)
    if verb == "SET" and words[1:2] == ("CATALOG",):
        return _named(About.CATALOG, "USE", tokens, 2)
    if verb == "SHOW":
        return _show(tokens, words)
    return _about_one(tokens, verb, words)


def _about_one(tokens: Sequence[Token], verb: str, words: tuple[str, ...]) -> Target:
    """What a statement is about that has its name behind its verb, if it names anything."""
    at = 3 if words[1:3] == ("OR", "REPLACE") else 1
    if verb in ("CREATE", "DROP", "ALTER", "DESCRIBE", "DESC") and words[at : at + 1]:
        noun = words[at]
        if noun in _SCHEMAS or noun == "CATALOG":
            about = About.CATALOG if noun == "CATALOG" else About.SCHEMA
            return _named(about, verb, tokens, at + 1, frozenset(("IF", "NOT", "EXISTS", "EXTENDED")))
        if noun in ("FUNCTION", "VARIABLE") or (verb in ("DESCRIBE", "DESC") and noun in _QUERIES):
            return Target(About.OTHER, verb)
    if (verb, *words[1:2]) == ("REFRESH", "FUNCTION") or (verb == "INSERT" and "DIRECTORY" in words[1:5]):
        return Target(About.OTHER, verb)
    if verb not in _ABOUT or (verb in ("CREATE", "DROP") and not {"TABLE", "VIEW"} & set(words[1:6])):
        return Target(About.OTHER, verb)
    return _named(About.TABLE, verb, tokens, 1, _ABOUT[verb])


def _behind_query(tokens: Sequence[Token]) -> Target:
    """What a statement is about that begins with a query: the table into which the query's rows go, if they do."""
    depth = 0
    for at, token in enumerate(tokens):
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth == 0 and token.is_word("INSERT", "MERGE", "UPDATE", "DELETE"):
            found = target_of(tokens[at:])
            return replace(found, begin=found.begin + at, end=found.end + at) if found.end else found
    return Target(About.OTHER, tokens[0].text.upper())


def _show(tokens: Sequence[Token], words: tuple[str, ...]) -> Target:
    at = 3 if words[1:3] == ("TABLE", "EXTENDED") else 2
    lists = words[1:at] in (("TABLES",), ("VIEWS",), ("TABLE", "EXTENDED"))
    if not lists or words[at : at + 1] not in (("IN",), ("FROM",)):
        return Target(About.OTHER, "SHOW")
    return _named(About.SCHEMA, "SHOW", tokens, at + 1)


def _use(tokens: Sequence[Token], words: tuple[str, ...]) -> Target:
    if words[1:2] == ("CATALOG",):
        return _named(About.CATALOG, "USE", tokens, 2)
    return _named(About.SCHEMA, "USE", tokens, 2 if words[1:2] and words[1] in _SCHEMAS else 1)


def _named(
    about: About, verb: str, tokens: Sequence[Token], begin: int, between: frozenset[str] = frozenset()
) -> Target:
    modifiers = set()
    while begin < len(tokens) and tokens[begin].is_word(*between):
        modifiers.add(tokens[begin].text.upper())
        begin += 1
    if begin >= len(tokens) or not (tokens[begin].is_name or tokens[begin].text[:1] in "'\""):
        return Target(About.OTHER, verb)
    end = begin + 1
    while end + 1 < len(tokens) and tokens[end].is_symbol(".") and tokens[end + 1].is_name:
        end += 2
    return Target(about, verb, begin, end, frozenset(modifiers))


def _words(tokens: Sequence[Token]) -> tuple[str, ...]:
    return tuple(token.text.upper() for token in tokens[:8])


def _follows(words: tuple[str, ...], pair: tuple[str, str]) -> bool:
    rest = tuple(word for word in words if word not in ("OR", "REPLACE", "REFRESH", "PRIVATE", "TEMPORARY"))
    return rest[:2] == pair or words[:2] == pair
