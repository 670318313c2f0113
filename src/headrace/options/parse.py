"""Parses the options of a reader or a sink by their table. All problems are reported at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.errors import PipelineError, Problems
from headrace.options.nearest import nearest
from headrace.options.option import Kind, Option, OptionTable, ReadMode, Treatment
from headrace.options.values import parse_value, text_of


@dataclass
class ParsedOptions:
    """The parsed options of one reader or sink, under their documented names.

    Attributes:
        table: defines the options.
        values: the options that were set and are valid.
        texts: the options that were set, as the user wrote them.
        passed_on: options that go unchanged to the client, by name in lower case.
        ignored: options without effect, with the reason.
        problems: the collected problems, which :meth:`check` raises.
    """

    table: OptionTable
    values: dict[str, Any] = field(default_factory=dict, repr=False)
    texts: dict[str, str] = field(default_factory=dict, repr=False)
    passed_on: dict[str, str] = field(default_factory=dict, repr=False)
    ignored: dict[str, str] = field(default_factory=dict)
    problems: list[PipelineError] = field(default_factory=list)

    def get(self, name: str, default: Any = None) -> Any:
        """The value of an option, or the default."""
        return self.values.get(name, default)

    def reject(self, name: str, reason: str) -> None:
        """Add a problem about an option's value; the value of a secret is not shown."""
        option = self.table.option(name)
        secret = option is not None and option.kind is Kind.SECRET
        value = "..." if secret else self.texts.get(name, "")
        self.add_problem(self.table.errors.value, option=name, value=value, reason=reason)

    def add_problem(self, code: str, **params: Any) -> None:
        """Add a problem of this table."""
        known = {"format": self.table.name, "page": self.table.page}
        self.problems.append(PipelineError(code, **{**known, **params}))

    def without_effect(self) -> tuple[tuple[str, str], ...]:
        """The options that were set but are ignored, each with the reason."""
        return tuple(self.ignored.items())

    def check(self) -> None:
        """Raise the collected problems.

        Raises:
            Problems: all of them.
        """
        if self.problems:
            raise Problems(self.problems)


def parse_options(
    table: OptionTable,
    given: Mapping[str, Any],
    *,
    time_zone: str = "UTC",
    streaming: bool = True,
    file_format: str = "",
    ignores: Callable[[str], bool] = lambda _: False,
) -> ParsedOptions:
    """Parse a reader's options: names are case-insensitive, values are as Spark accepts them, None means not set.

    If an option is set in several spellings, the last one counts, as in Spark's own map.

    Args:
        table: defines the options.
        given: names and values.
        time_zone: of times without a zone.
        streaming: whether a stream is read. A stream refuses options for batches; a batch ignores options for streams.
        file_format: the format of the files; options of other formats are refused.
        ignores: whether an unknown name is ignored; otherwise it is a problem.
    """
    parsed = ParsedOptions(table)
    for name, value in given.items():
        if value is None:
            continue
        option = table.option(name)
        if option is not None:
            _add_option(parsed, option, name, text_of(value), time_zone, file_format, streaming=streaming)
        elif table.passed_on and name.casefold().startswith(table.passed_on):
            parsed.passed_on[name.casefold()] = text_of(value)
        elif not ignores(name):
            close = nearest(name, [known.name for known in table.options])
            parsed.add_problem(table.errors.unknown, option=name, near=close or "none")
    for option in table.options:
        if option.required and option.name not in parsed.texts:
            parsed.add_problem(table.errors.missing, option=option.name, about=option.about)
    return parsed


def _add_option(
    parsed: ParsedOptions, option: Option, name: str, text: str, time_zone: str, file_format: str, *, streaming: bool
) -> None:
    errors = parsed.table.errors
    if option.treatment is Treatment.REFUSED:
        named = name if option.name.endswith(".*") else option.name
        parsed.add_problem(errors.refused, option=named, reason=option.about, instead=option.fix)
    elif option.formats and file_format not in option.formats:
        formats = " and ".join(option.formats)
        parsed.add_problem(errors.other_format, option=option.name, formats=formats, format=file_format)
    elif option.read_mode is ReadMode.BATCHES and streaming:
        reason, instead = "it says where a batch ends, and a stream has no end", "Remove it, or read with spark.read"
        parsed.add_problem(errors.refused, option=option.name, reason=reason, instead=instead)
    elif option.treatment is Treatment.ACCEPTED:
        parsed.ignored[option.name] = option.about
    elif option.read_mode is ReadMode.STREAMS and not streaming:
        parsed.ignored[option.name] = "a batch reads everything at once"
    else:
        parsed.texts[option.name] = text
        try:
            parsed.values[option.name] = parse_value(option, text, time_zone)
        except ValueError as error:
            parsed.reject(option.name, str(error))
