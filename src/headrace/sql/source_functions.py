"""Finds calls of ``read_files``, ``read_kafka`` and the like in a query, with their arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.errors import PipelineError
from headrace.sql.lexer import Kind, Token, bracket_pairs, lex, split_at_commas, unquoted

READ_FILES, CLOUD_FILES = "READ_FILES", "CLOUD_FILES"
# The functions that read no files: their format, and options whose names are written without dots.
_FORMATS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "READ_KAFKA": ("kafka", {"bootstrapservers": "kafka.bootstrap.servers"}),
    "READ_KINESIS": ("kinesis", {}),
}
_EXAMPLES = {
    READ_FILES: "read_files('/path', format => 'json', header => true)",
    CLOUD_FILES: "cloud_files('/path', 'json', map('multiLine', 'true'))",
    "READ_KAFKA": "read_kafka(bootstrapServers => 'host:9092', subscribe => 'orders')",
    "READ_KINESIS": "read_kinesis(streamName => 'clicks', region => 'eu-west-1')",
}


@dataclass(frozen=True)
class SourceCall:
    """One call. ``start`` and ``end`` are its range in the text, including STREAM and its brackets.

    ``options`` are as written and may contain secrets; ``format`` is the second argument of ``cloud_files`` or the
    format of the function. Only functions that read files have a path.
    """

    function: str
    start: int
    end: int
    streams: bool
    path: str | None
    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def reads_files(self) -> bool:
        """True if the call uses Auto Loader."""
        return self.path is not None


def source_calls(text: str) -> tuple[SourceCall, ...]:
    """The calls of a query, in order.

    Raises:
        PipelineError: ``SQL.SOURCE_ARGUMENT``: an argument is not a literal, or has no name where it needs one.
    """
    if not any(name in text.upper() for name in _EXAMPLES):
        return ()
    tokens = lex(text).tokens
    return tuple(_calls(tokens, bracket_pairs(tokens)))


def _calls(tokens: Sequence[Token], pairs: Mapping[int, int]) -> Iterator[SourceCall]:
    for index, token in enumerate(tokens[:-1]):
        if not token.is_word(*_EXAMPLES) or not tokens[index + 1].is_symbol("(") or index + 1 not in pairs:
            continue
        if index and tokens[index - 1].is_symbol("."):
            continue
        closing = pairs[index + 1]
        first, last, streams = _with_stream(tokens, index, closing, pairs)
        function = token.text.upper()
        given = tokens[index + 2 : closing]
        path, kind, options = _named(function, given) if function in _FORMATS else _arguments(function, given)
        yield SourceCall(function, tokens[first].start, tokens[last].end, streams, path, kind, options)


def _with_stream(tokens: Sequence[Token], index: int, closing: int, pairs: Mapping[int, int]) -> tuple[int, int, bool]:
    """First and last token of a call with its STREAM, and whether it has one."""
    if index and tokens[index - 1].is_word("STREAM"):
        return index - 1, closing, True
    within = index > 1 and tokens[index - 1].is_symbol("(") and tokens[index - 2].is_word("STREAM")
    if within and pairs.get(index - 1) == closing + 1:
        return index - 2, closing + 1, True
    return index, closing, False


def _named(function: str, tokens: Sequence[Token]) -> tuple[None, str, Mapping[str, str]]:
    """Parse the arguments of a function that reads no files: named options only."""
    kind, written = _FORMATS[function]
    options = {}
    for argument in split_at_commas(tokens):
        arrow = _arrow(argument)
        if arrow is None:
            raise _wrong(function, "an argument has no name")
        name = _name(argument[:arrow])
        options[written.get(name.casefold(), name)] = _literal(function, argument[arrow + 2 :])
    return None, kind, options


def _arguments(function: str, tokens: Sequence[Token]) -> tuple[str, str | None, Mapping[str, str]]:
    path: str | None = None
    kind: str | None = None
    options: dict[str, str] = {}
    for index, argument in enumerate(split_at_commas(tokens)):
        arrow = _arrow(argument)
        if arrow is not None:
            name = _name(argument[:arrow])
            value = _literal(function, argument[arrow + 2 :])
            if name.casefold() == "path":
                path = value
            else:
                options[name] = value
        elif index == 0:
            path = _literal(function, argument)
        elif index == 1 and function == CLOUD_FILES:
            kind = _literal(function, argument)
        elif index == 2 and function == CLOUD_FILES:
            options |= _map(function, argument)
        else:
            raise _wrong(function, "an argument after the path has no name")
    if path is None:
        raise _wrong(function, "the path is missing")
    return path, kind, options


def _arrow(tokens: Sequence[Token]) -> int | None:
    return next((index for index in range(len(tokens) - 1) if _is_arrow(tokens, index)), None)


def _name(tokens: Sequence[Token]) -> str:
    return "".join(token.text.strip("`") for token in tokens)


def _is_arrow(tokens: Sequence[Token], index: int) -> bool:
    return tokens[index].is_symbol("=") and tokens[index + 1].is_symbol(">")


def _literal(function: str, tokens: Sequence[Token]) -> str:
    if len(tokens) == 1:
        (token,) = tokens
        if token.kind is Kind.STRING:
            return unquoted(token)
        if token.kind is Kind.NUMBER or token.text.isdecimal():
            return token.text
        if token.is_word("TRUE", "FALSE"):
            return token.text.lower()
    # A string may be a secret, either itself or through ${name}.
    text = " ".join("'...'" if token.kind is Kind.STRING else token.text for token in tokens)
    raise _wrong(function, f"the argument {text} is not a literal" if text else "an argument has no value")


def _map(function: str, tokens: Sequence[Token]) -> Mapping[str, str]:
    if len(tokens) < 3 or not tokens[0].is_word("MAP") or not tokens[1].is_symbol("("):
        raise _wrong(function, "the third argument is not map(...)")
    values = [_literal(function, part) for part in split_at_commas(tokens[2:-1])]
    if len(values) % 2:
        raise _wrong(function, "an option of map(...) has no value")
    return dict(zip(values[0::2], values[1::2], strict=True))


def _wrong(function: str, reason: str) -> PipelineError:
    return PipelineError("SQL.SOURCE_ARGUMENT", function=function.lower(), reason=reason, example=_EXAMPLES[function])
