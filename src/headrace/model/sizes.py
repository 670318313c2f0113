"""Numbers of bytes as text."""

from __future__ import annotations

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def size_text(size_bytes: float) -> str:
    """A number of bytes in the unit that suits it, such as ``34.5 KiB``."""
    size, unit = float(size_bytes), 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size_bytes:.0f} bytes" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"
