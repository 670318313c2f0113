"""Which field names can be column names."""

from __future__ import annotations

# Characters that Delta refuses in column names without column mapping (``DeltaColumnMapping``).
UNMAPPED = frozenset(" ,;{}()\n\t=")
# Other readers end a name at NUL; the replacement character stands for invalid bytes.
_NEVER = frozenset("\0\ufffd")
# Java treats these two as an i in another case (``String.equalsIgnoreCase``).
_JAVA_I = {0x130: "i", 0x131: "i"}


def can_be_column(name: str, *, plain_names: bool = False) -> bool:
    """Whether a field of that name can be a column or nested field; *plain_names*: the table has no column mapping.

    An empty name cannot be written in SQL.
    """
    return bool(name) and _NEVER.isdisjoint(name) and not (plain_names and not UNMAPPED.isdisjoint(name))


def fold_name(name: str) -> str:
    """Equal for names that a table treats as the same."""
    return name.translate(_JAVA_I).casefold()
