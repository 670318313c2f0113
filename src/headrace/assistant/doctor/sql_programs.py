"""Finds the calls of SQL files that an edit changes: readers of streams, such as ``STREAM read_files``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.assistant.doctor.facts import ProgramFile
from headrace.assistant.doctor.findings import lines_of
from headrace.assistant.doctor.stream_reader import Span, StreamReader
from headrace.sql.lexer import Kind, Token, bracket_pairs, lex, split_at_commas, unquoted

# The functions whose options are named arguments, and the format of each.
_FUNCTIONS = {"READ_FILES": "cloudfiles", "READ_KAFKA": "kafka", "READ_KINESIS": "kinesis"}
# Options of files are written without the prefix of Auto Loader.
_PREFIX = "cloudfiles."


def sql_readers(files: Sequence[ProgramFile]) -> Iterator[StreamReader]:
    """The readers of streams in statements that create a dataset, or a flow into one."""
    for file in files:
        if file.is_sql and any(name in file.text.upper() for name in _FUNCTIONS):
            yield from _readers(file, lex(file.text).tokens)


def sql_definitions(files: Sequence[ProgramFile]) -> Iterator[tuple[str, str, int]]:
    """The dataset that each statement of a SQL file creates, or creates a flow into, with file and line."""
    for file in files:
        if not file.is_sql:
            continue
        statement: list[Token] = []
        for token in (*lex(file.text).tokens, None):
            if token is not None and not token.is_symbol(";"):
                statement.append(token)
                continue
            dataset = _dataset(statement)
            if dataset is not None:
                yield dataset, file.name, statement[0].line
            statement = []


def _readers(file: ProgramFile, tokens: Sequence[Token]) -> Iterator[StreamReader]:
    pairs, start = bracket_pairs(tokens), 0
    for index, token in enumerate(tokens):
        if token.is_symbol(";"):
            start = index + 1
        closing = pairs.get(index + 1)
        if token.is_word(*_FUNCTIONS) and closing is not None and _is_stream(tokens, index):
            dataset = _dataset(tokens[start:index])
            if dataset is not None:
                yield _reader(file, dataset, tokens, (index, closing))


def _is_stream(tokens: Sequence[Token], index: int) -> bool:
    before = [token for token in tokens[max(index - 2, 0) : index] if not token.is_symbol("(")]
    return bool(before) and before[-1].is_word("STREAM")


def _dataset(tokens: Sequence[Token]) -> str | None:
    """The dataset of a statement that creates it, or that inserts into it."""
    words = [token.text.upper() for token in tokens]
    if "CREATE" not in words[:1]:
        return None
    marks = ("INTO",) if "FLOW" in words else ("TABLE", "VIEW")
    position = next((index for index, word in enumerate(words) if word in marks), None)
    if position is None:
        return None
    rest = list(tokens[position + 1 :])
    while rest and rest[0].is_word("IF", "NOT", "EXISTS", "ONCE"):
        rest = rest[1:]
    name = ""
    for token in rest:
        if name.endswith(".") or not name or token.is_symbol("."):
            name += token.text.strip("`")
        else:
            break
    return name or None


def _reader(file: ProgramFile, dataset: str, tokens: Sequence[Token], call: tuple[int, int]) -> StreamReader:
    function, closing = call
    options: dict[str, str] = {}
    values: dict[str, Span] = {}
    shows_all = True
    for argument in split_at_commas(tokens[function + 2 : closing]):
        arrow = next((n for n, token in enumerate(argument[:-1]) if _is_arrow(argument, n)), None)
        if arrow is None:
            # The path.
            continue
        name = "".join(token.text.strip("`") for token in argument[:arrow]).lower()
        value = argument[arrow + 2 :]
        shows_all = shows_all and len(value) == 1
        if len(value) == 1:
            options[name] = unquoted(value[0]) if value[0].kind is Kind.STRING else value[0].text
            span = _span(file, value[0].start, value[0].end)
            if span is not None:
                values[name] = span
    end = tokens[closing].start
    return StreamReader(
        file,
        dataset,
        _FUNCTIONS[tokens[function].text.upper()],
        {**options, **{f"{_PREFIX}{name}": value for name, value in options.items()}},
        shows_all,
        tokens[function].line,
        {**values, **{f"{_PREFIX}{name}": span for name, span in values.items()}},
        _span(file, end, end),
        ", {name} => {value}",
    )


def _is_arrow(tokens: Sequence[Token], index: int) -> bool:
    return tokens[index].is_symbol("=") and tokens[index + 1].is_symbol(">")


def _span(file: ProgramFile, start: int, end: int) -> Span | None:
    """The part of a line from one offset of the text to another; None if it has several lines."""
    before = file.text[:start].splitlines(keepends=True)
    is_new_line = not before or before[-1].endswith(("\n", "\r"))
    line, begin = (len(before) + 1, 0) if is_new_line else (len(before), len(before[-1]))
    written = lines_of(file.text)
    has_end = line <= len(written) and begin + end - start <= len(written[line - 1])
    return Span(line, begin, begin + end - start) if has_end else None
