"""Secrets in the system's keyring, if the package ``keyring`` is installed."""

from __future__ import annotations

from importlib import import_module

SERVICE = "headrace"


def from_keyring(scope: str, key: str) -> str | None:
    """The value stored by ``keyring set headrace/SCOPE KEY``; None if there is none, or no keyring."""
    try:
        keyring = import_module("keyring")
    except ImportError:
        return None
    try:
        found = keyring.get_password(f"{SERVICE}/{scope}", key)
    except Exception:  # noqa: BLE001 - each backend raises its own, such as one that needs a display
        return None
    return None if found is None else str(found)
