"""The options of a source as tables of Markdown, for the pages of the reference."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.settings.keys import Treatment
from headrace.sources.option_reading import ReadMode, SourceFormat, SourceOption

_HEADS = ("option", "value", "default", "what it is")


def options_of(source: SourceFormat) -> str:
    """The tables of a source: used options (by all readers or by some), ignored options, and refused ones."""
    used = [o for o in source.options if o.treatment is Treatment.USED]
    accepted = [o for o in source.options if o.treatment is Treatment.ACCEPTED]
    refused = [o for o in source.options if o.treatment is Treatment.REFUSED]
    parts = [_table(_HEADS, (_used_row(o) for o in used if o.read_mode is ReadMode.BOTH))]
    for read_mode, heading in (
        (ReadMode.STREAMS, "Of streams; in a batch they have no effect, which is said:"),
        (ReadMode.BATCHES, "Of batches (`spark.read`); refused for streams:"),
    ):
        some = [o for o in used if o.read_mode is read_mode]
        parts += [f"{heading}\n\n{_table(_HEADS, map(_used_row, some))}"] if some else []
    if accepted:
        rows = ((f"`{o.name}`", f"{o.about}.") for o in accepted)
        parts.append("Accepted without effect, and said:\n\n" + _table(("option", "why"), rows))
    if refused:
        rows_of_refused = ((f"`{o.name}`", f"{o.about}.", f"{o.fix}.") for o in refused)
        parts.append("Refused:\n\n" + _table(("option", "why", "instead"), rows_of_refused))
    return "\n\n".join(parts) + "\n"


def _used_row(option: SourceOption) -> tuple[str, ...]:
    kind = ", ".join(f"`{value}`" for value in option.values) or option.kind.value
    default = "required" if option.required else option.default
    return f"`{option.name}`", kind, default, option.about.replace("|", "\\|")


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
