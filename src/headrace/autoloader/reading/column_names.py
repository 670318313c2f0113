"""Which names of fields can be names of columns."""

from __future__ import annotations

# Delta refuses columns with these in their names, unless they are mapped (``DeltaColumnMapping``).
UNMAPPED = frozenset(" ,;{}()\n\t=")
# Readers beside Spark's end a name at NUL; the mark stands in the place of bytes that are no text.
_NEVER = frozenset("\0\ufffd")
# To Java, these two are an i in another case (``String.equalsIgnoreCase``).
_JAVA_I = {0x130: "i", 0x131: "i"}


def can_be_column(name: str, *, plain: bool = False) -> bool:
    """Whether a field of that name becomes a column, or a field in one; of a *plain* table, without mapped names.

    A name of nothing cannot be said in SQL.
    """
    return bool(name) and _NEVER.isdisjoint(name) and not (plain and not UNMAPPED.isdisjoint(name))


def folded(name: str) -> str:
    """The same for names that a table takes for one."""
    return name.translate(_JAVA_I).casefold()
