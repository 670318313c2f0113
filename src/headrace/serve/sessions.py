"""Who is signed in, and who has tried too often. In memory: after a restart, browsers sign in again."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable
from hashlib import sha256

SESSION_S = 12 * 3600
_MOST_SESSIONS = 1000
_MOST_TRIES, _PER_S = 5, 60.0
_MOST_ADDRESSES = 10_000


class Sessions:
    """The sessions of browsers, by the digest of what their cookie has.

    Args:
        clock: seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._open: dict[str, tuple[float, str]] = {}

    def open(self, token: str) -> str:
        """Begin a session, and return the value of its cookie. The oldest one ends if there are too many.

        Args:
            token: the digest of the token that begins it.
        """
        while len(self._open) >= _MOST_SESSIONS:
            del self._open[next(iter(self._open))]
        value = secrets.token_urlsafe(32)
        self._open[digest_of(value)] = (self._clock() + SESSION_S, token)
        return value

    def token(self, value: str) -> str | None:
        """The digest of the token that began the session of a cookie; None if it has no session, or it has ended."""
        found = self._open.get(digest_of(value))
        if found is not None and found[0] <= self._clock():
            self.close(value)
            return None
        return None if found is None else found[1]

    def close(self, value: str) -> None:
        """End a session."""
        self._open.pop(digest_of(value), None)


class Tries:
    """Failed attempts to sign in: so many a minute from one address.

    Args:
        clock: seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures: dict[str, deque[float]] = {}

    def wait_s(self, address: str) -> float:
        """How long an address must wait before its next attempt; 0 if it may try now."""
        found = self._failures.get(address)
        if found is None or len(found) < _MOST_TRIES:
            return 0
        return max(found[0] + _PER_S - self._clock(), 0)

    def fail(self, address: str) -> None:
        """Count a failed attempt."""
        while len(self._failures) >= _MOST_ADDRESSES:
            del self._failures[next(iter(self._failures))]
        self._failures.setdefault(address, deque(maxlen=_MOST_TRIES)).append(self._clock())


def digest_of(value: str) -> str:
    """The digest of the value of a cookie."""
    return sha256(value.encode("utf-8", "replace")).hexdigest()
