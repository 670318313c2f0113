"""The file with the digests of the tokens that open the server; a token is shown once, and stored nowhere."""

from __future__ import annotations

import hmac
import json
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from headrace.alerts.file_lock import PATIENCE_S, locked
from headrace.atomic_write import create_private_file, replace_private_file
from headrace.errors import PipelineError
from headrace.serve.roles import Role

# Format 1 had one token, without a name.
_FORMAT, _OLD_FORMAT = 2, 1
_ID_BYTES, _SECRET_BYTES = 4, 32
# Longer than any token of ours; the rest of a text is not read.
_LONGEST = 200
_MOST_TOKENS = 100
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}")
FIRST_NAME = "admin"


@dataclass(frozen=True)
class Token:
    """A token, without its text.

    Attributes:
        name: who has it.
        role: what it may do.
        sha256: the digest of its text.
        made_at: when it was made, in seconds since 1970; 0 in files of older versions.
        ends_at: when it opens nothing any more; None for never.
    """

    name: str
    role: Role
    sha256: str
    made_at: float = 0.0
    ends_at: float | None = None

    def is_valid(self, now: float) -> bool:
        """Whether it has not ended."""
        return self.ends_at is None or now < self.ends_at


@dataclass(frozen=True)
class Tokens:
    """The tokens of a file."""

    all: tuple[Token, ...]

    def has_admin(self, now: float) -> bool:
        """Whether an admin has one that has not ended."""
        return any(token.role is Role.ADMIN and token.is_valid(now) for token in self.all)

    def of_text(self, text: str, now: float) -> Token | None:
        """The token with a text; None if no token has it, or it has ended. Takes as long for a wrong text."""
        return self.of_digest(_digest(text[:_LONGEST]), now)

    def of_digest(self, digest: str, now: float) -> Token | None:
        """The token with a digest; None if no token has it, or it has ended."""
        found = [token for token in self.all if hmac.compare_digest(token.sha256, digest)]
        return next((token for token in found if token.is_valid(now)), None)


def default_token_file(environ: Mapping[str, str]) -> Path:
    """Where the file is: one for each user of the machine."""
    base = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME") or Path.home()) / ".config")
    return Path(base) / "headrace" / "serve.json"


class TokenFile:
    """The file of the tokens.

    Args:
        path: where it is; only its owner may read it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def create(self, now: float, *, replace: bool = False) -> str | None:
        """Make the first token, of an admin, unless the file exists; returns its text, None if the file exists.

        Args:
            now: the time in seconds since 1970.
            replace: make a new one in any case: the old one opens nothing any more, and other tokens stay. A file that
                is damaged, or that others could change, is replaced as a whole.

        Raises:
            PipelineError: SERVE.TOKEN_FILE.
        """
        if not replace and self._path.exists():
            # Its folder may be one that nobody can write to, such as a mounted secret.
            self.read()
            return None
        text, made = _made(FIRST_NAME, Role.ADMIN, now, None)
        with self._changing():
            if replace:
                try:
                    others = [token for token in self.read().all if token.name != FIRST_NAME]
                except PipelineError:
                    others = []
                replace_private_file(self._path, _content([made, *others]))
                return text
            create_private_file(self._path, _content([made]))
        # Another process may have been faster.
        return text if self.read().of_text(text, now) is not None else None

    def add(self, name: str, role: Role, now: float, ends_at: float | None = None) -> str:
        """Make a token, and return its text.

        Args:
            name: who has it.
            role: what it may do.
            now: the time in seconds since 1970.
            ends_at: when it opens nothing any more; None for never.

        Raises:
            PipelineError: SERVE.TOKEN_FILE, SERVE.TOKEN_NAME, SERVE.TOKEN_EXISTS, SERVE.TOO_MANY_TOKENS.
        """
        if not _NAME.fullmatch(name):
            raise PipelineError("SERVE.TOKEN_NAME", name=name)
        text, made = _made(name, role, now, ends_at)
        with self._changing():
            known = self.known()
            # One that has ended makes room for its successor.
            valid = [token for token in known if token.is_valid(now) or token.name != name]
            if any(token.name == name for token in valid):
                raise PipelineError("SERVE.TOKEN_EXISTS", name=name)
            if len(valid) >= _MOST_TOKENS:
                raise PipelineError("SERVE.TOO_MANY_TOKENS", most=_MOST_TOKENS)
            replace_private_file(self._path, _content([*valid, made]))
        return text

    def revoke(self, name: str) -> None:
        """Remove a token: it opens nothing any more, and the sessions end that it has begun.

        Raises:
            PipelineError: SERVE.TOKEN_FILE, SERVE.NO_TOKEN.
        """
        with self._changing():
            known = self.known()
            kept = [token for token in known if token.name != name]
            if len(kept) == len(known):
                raise PipelineError("SERVE.NO_TOKEN", name=name, known=", ".join(one.name for one in known) or "none")
            replace_private_file(self._path, _content(kept))

    def known(self) -> tuple[Token, ...]:
        """All tokens, also those that have ended; no token if there is no file yet.

        Raises:
            PipelineError: SERVE.TOKEN_FILE: it is damaged, or others may read or change it.
        """
        return self.read().all if self._path.exists() else ()

    def read(self) -> Tokens:
        """The tokens in the file.

        Raises:
            PipelineError: SERVE.TOKEN_FILE: it is missing or damaged, or others may read or change it.
        """
        try:
            with self._path.open("rb") as file:
                mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
                document = json.loads(file.read())
        except OSError as error:
            raise self._wrong(error.strerror or str(error)) from error
        except (ValueError, RecursionError):
            raise self._wrong("it is damaged") from None
        if mode & 0o077:
            raise self._wrong(f"others may read or change it: its mode is {mode:o}")
        try:
            return Tokens(_tokens(document))
        except (LookupError, TypeError, ValueError, AttributeError):
            raise self._wrong("it is damaged, or of a newer version") from None

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """One process at a time changes the file."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with locked(self._path.with_name(f"{self._path.name}.lock"), PATIENCE_S) as is_ours:
                if not is_ours:
                    raise self._wrong("another process is changing it")
                yield
        except OSError as error:
            raise self._wrong(error.strerror or str(error)) from error

    def _wrong(self, reason: str) -> PipelineError:
        return PipelineError("SERVE.TOKEN_FILE", file=self._path, reason=reason)


def _made(name: str, role: Role, now: float, ends_at: float | None) -> tuple[str, Token]:
    text = f"hr_{secrets.token_hex(_ID_BYTES)}_{secrets.token_urlsafe(_SECRET_BYTES)}"
    return text, Token(name, role, _digest(text), now, ends_at)


def _content(tokens: list[Token]) -> bytes:
    return (json.dumps({"format": _FORMAT, "tokens": [asdict(one) for one in tokens]}, indent=1) + "\n").encode()


def _tokens(document: Any) -> tuple[Token, ...]:
    """The tokens of a document; raises LookupError, TypeError or ValueError if it is damaged."""
    if document["format"] == _OLD_FORMAT:
        return (Token(FIRST_NAME, Role.ADMIN, _checked(document["sha256"])),)
    if document["format"] != _FORMAT:
        raise ValueError(document["format"])
    return tuple(
        Token(
            str(one["name"]),
            Role(one["role"]),
            _checked(one["sha256"]),
            float(one["made_at"]),
            None if one["ends_at"] is None else float(one["ends_at"]),
        )
        for one in document["tokens"]
    )


def _checked(digest: Any) -> str:
    if not isinstance(digest, str) or not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise ValueError(digest)
    return digest


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "replace")).hexdigest()
