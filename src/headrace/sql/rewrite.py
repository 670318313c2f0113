"""Replaces names of datasets in a query by their names in the session; the rest of the text is unchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from headrace.model.names import InvalidName, Naming, QualifiedName, split_name
from headrace.sql.ctes import with_list
from headrace.sql.lexer import Token, bracket_pairs, lex

# Words that end a list of tables; after them a comma does not introduce another table.
_ENDS_LIST = (
    *("WHERE", "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "WINDOW", "QUALIFY"),
    *("UNION", "EXCEPT", "INTERSECT", "MINUS", "SELECT", "VALUES"),
)
_LONGEST = 3


def rewrite_names(text: str, naming: Naming, session_name: Callable[[QualifiedName], str | None]) -> str:
    """*text* with each name that *session_name* knows replaced by the string that it returns.

    A name of two or three parts, or ``LIVE.name``, is replaced everywhere; what follows it (``.column``) stays. A name
    of one part is replaced where it is a table: after FROM, JOIN, STREAM, TABLE and the commas of a FROM list, unless
    a WITH of the same query defines it there. A text with an unclosed token is returned unchanged, so that Spark
    reports the error.

    Law: a text without a known name is returned unchanged.
    """
    lexed = lex(text)
    if lexed.unclosed is not None:
        return text
    tokens = lexed.tokens
    tables = set(_table_positions(tokens))
    common = _CommonTables.of(tokens)
    pieces: list[str] = []
    position = 0
    for begin, end in _chains(tokens):
        known = _known(tokens, begin, end, naming, session_name)
        if known is None:
            continue
        replacement, parts = known
        if parts == 1 and (begin not in tables or common.defines(tokens[begin], begin)):
            continue
        last = begin + 2 * (parts - 1)
        pieces += [text[position : tokens[begin].start], replacement]
        position = tokens[last].end
    return "".join((*pieces, text[position:]))


def without_streams(text: str, replacement: Callable[[str], str | None]) -> str:
    """*text* with each streaming read (``STREAM t``, ``STREAM(t)``) replaced by a batch read.

    Args:
        text: a query.
        replacement: returns what to read instead of a table, given its name as written; None for the table itself.

    Law: a text without streaming reads is returned unchanged.
    """
    tokens = lex(text).tokens
    ends = dict(_chains(tokens))
    pieces: list[str] = []
    position = 0
    streams = False
    for index, is_table in _tables_and_streams(tokens):
        if not is_table:
            pieces.append(text[position : tokens[index].start])
            position, streams = tokens[index].end, True
        elif streams and index in ends:
            begin, end = tokens[index].start, tokens[ends[index] - 1].end
            other = replacement(text[begin:end])
            if other is not None:
                pieces += [text[position:begin], other]
                position = end
            streams = False
    return "".join((*pieces, text[position:]))


def _chains(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """First index and end of each dotted name, except paths into JSON."""
    index = 0
    while index < len(tokens):
        if not tokens[index].is_name or (index and tokens[index - 1].is_symbol(".", ":", "@", "$")):
            index += 1
            continue
        end = index + 1
        while end + 1 < len(tokens) and tokens[end].is_symbol(".") and tokens[end + 1].is_name:
            end += 2
        yield index, end
        index = end


def _known(
    tokens: Sequence[Token],
    begin: int,
    end: int,
    naming: Naming,
    session_name: Callable[[QualifiedName], str | None],
) -> tuple[str, int] | None:
    """The session's name for the longest known prefix of a dotted name, and its number of parts."""
    count = (end - begin + 1) // 2
    if end < len(tokens) and tokens[end].is_symbol("("):
        return None
    shortest = min(count, 2)
    for parts in range(min(count, _LONGEST), shortest - 1, -1):
        try:
            name = naming.canonical(".".join(token.text for token in tokens[begin : begin + 2 * parts - 1 : 2]))
        except InvalidName:
            continue
        replacement = session_name(name)
        if replacement is not None:
            return replacement, parts
    return None


@dataclass(frozen=True)
class _CommonTables:
    """The scopes of common table expressions: ranges of token indexes by name."""

    ranges: Mapping[str, Sequence[range]]

    @classmethod
    def of(cls, tokens: Sequence[Token]) -> _CommonTables:
        pairs = bracket_pairs(tokens)
        found: dict[str, list[range]] = {}
        for index, token in enumerate(tokens):
            if not token.is_word("WITH"):
                continue
            enclosing = [closing for opening, closing in pairs.items() if opening < index < closing]
            end = min(enclosing, default=len(tokens))
            defined = with_list(tokens, index, pairs)
            for table in defined.tables:
                # Inside its own query the name still means the dataset, unless the query is recursive.
                begin = table.opening if defined.recursive else table.closing
                found.setdefault(table.name, []).append(range(begin, end))
        return cls(found)

    def defines(self, token: Token, index: int) -> bool:
        """True if *token* at *index* names a common table expression."""
        return any(index in scope for scope in self.ranges.get(split_name(token.text)[0].casefold(), ()))


@dataclass
class _Scope:
    """The parser state inside one pair of brackets.

    ``expects``: the next name is a table. ``in_list``: a comma introduces another table. ``selects``: a FROM here
    begins a list and is not part of EXTRACT(YEAR FROM x) or TRIM(BOTH FROM x). ``begins``: no token was read yet.
    """

    expects: bool = False
    in_list: bool = False
    selects: bool = False
    begins: bool = True


def _table_positions(tokens: Sequence[Token]) -> Iterator[int]:
    """The indexes of names in table positions."""
    return (index for index, is_table in _tables_and_streams(tokens) if is_table)


def _tables_and_streams(tokens: Sequence[Token]) -> Iterator[tuple[int, bool]]:
    """The indexes of names in table positions (True), and of STREAM before them (False)."""
    scopes = [_Scope(selects=True)]
    for index, token in enumerate(tokens):
        scope = scopes[-1]
        if token.is_symbol("(", "["):
            # In `FROM (a JOIN b)`, `STREAM (t)` and `TABLE (t)` the table is inside.
            scopes.append(_Scope(expects=scope.expects, in_list=scope.expects))
            scope.expects = False
        elif token.is_symbol(")", "]"):
            if len(scopes) > 1:
                scopes.pop()
        elif token.is_symbol(","):
            scope.expects = scope.in_list
        elif _is_pipe(tokens, index):
            scope.in_list = False
        elif _is_stream(scope, tokens, index):
            yield index, False
        elif not _update_scope(scope, tokens, index):
            if scope.expects and token.is_name:
                yield index, True
            scope.expects = False
        scope.begins = False


def _update_scope(scope: _Scope, tokens: Sequence[Token], index: int) -> bool:
    """Update *scope* for a keyword that affects table positions; False for any other token."""
    token = tokens[index]
    before = tokens[index - 1] if index else None
    after = tokens[index + 1] if index + 1 < len(tokens) else None
    if before is not None and before.is_symbol("."):
        return False
    if token.is_word("FROM"):
        distinct = before is not None and before.is_word("DISTINCT")
        if (scope.selects or scope.begins) and not distinct:
            scope.expects = scope.in_list = True
    elif token.is_word("JOIN"):
        scope.expects = scope.in_list = True
    elif token.is_word("TABLE") and after is not None and (after.is_name or after.is_symbol("(")):
        scope.expects = True
    elif token.is_word(*_ENDS_LIST) or (token.is_word("WITH") and scope.begins):
        scope.expects = scope.in_list = False
        scope.selects = scope.selects or token.is_word("SELECT")
    elif token.is_word("LATERAL") and after is not None and after.is_word("VIEW"):
        scope.in_list = False
    else:
        return token.is_word("LATERAL") and scope.expects
    return True


def _is_stream(scope: _Scope, tokens: Sequence[Token], index: int) -> bool:
    """True for STREAM before a table."""
    after_dot = index > 0 and tokens[index - 1].is_symbol(".")
    return scope.expects and tokens[index].is_word("STREAM") and not after_dot


def _is_pipe(tokens: Sequence[Token], index: int) -> bool:
    """True for the first half of ``|>``, after which a comma separates columns."""
    return tokens[index].is_symbol("|") and index + 1 < len(tokens) and tokens[index + 1].is_symbol(">")
