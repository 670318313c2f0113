"""The options of a source as tables of Markdown, for the pages of the reference."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.options.option import Option, OptionTable, ReadMode, Treatment

_HEADS = ("option", "value", "default", "what it is")


def options_of(source: OptionTable) -> str:
    """The tables of a source: used options (by all readers or by some), ignored options, and refused ones."""
    used = [o for o in source.options if o.treatment is Treatment.USED]
    accepted = [o for o in source.options if o.treatment is Treatment.ACCEPTED]
    refused = [o for o in source.options if o.treatment is Treatment.REFUSED]
    parts = [_table(_HEADS, (_used_row(o) for o in used if o.read_mode is ReadMode.BOTH))]
    for read_mode, heading in (
        (ReadMode.STREAMS, "Options of streams. A batch ignores them, with a warning:"),
        (ReadMode.BATCHES, "Options of batches (`spark.read`). Streams refuse them:"),
    ):
        some = [o for o in used if o.read_mode is read_mode]
        parts += [f"{heading}\n\n{_table(_HEADS, map(_used_row, some))}"] if some else []
    if accepted:
        rows = ((f"`{o.name}`", f"{o.about}.") for o in accepted)
        parts.append("Accepted without effect, with a warning:\n\n" + _table(("option", "why"), rows))
    if refused:
        rows_of_refused = ((f"`{o.name}`", f"{o.about}.", f"{o.fix}.") for o in refused)
        parts.append("Refused:\n\n" + _table(("option", "why", "instead"), rows_of_refused))
    return "\n\n".join(parts) + "\n"


def _used_row(option: Option) -> tuple[str, ...]:
    kind = ", ".join(f"`{value}`" for value in option.values) or option.kind.value
    default = "required" if option.required else option.default
    return f"`{option.name}`", kind, default, option.about.replace("|", "\\|")


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
