"""The file with the digest of the token that opens the server; the token itself is shown once and stored nowhere."""

from __future__ import annotations

import hmac
import json
import os
import secrets
import stat
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from headrace.atomic_write import create_private_file
from headrace.errors import PipelineError

_FORMAT = 1
_ID_BYTES, _SECRET_BYTES = 4, 32
# Longer than any token of ours; the rest of a text is not read.
_LONGEST = 200


def default_token_file(environ: Mapping[str, str]) -> Path:
    """Where the file is: one for each user of the machine."""
    base = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME") or Path.home()) / ".config")
    return Path(base) / "headrace" / "serve.json"


class TokenFile:
    """The file of the token.

    Args:
        path: where it is; only its owner may read it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def create(self, *, replace: bool = False) -> str | None:
        """Make a token and store its digest, unless there is one; returns the token, None if one was there.

        Args:
            replace: make a new token in any case; the old one opens nothing any more.

        Raises:
            PipelineError: SERVE.TOKEN_FILE.
        """
        token = f"hr_{secrets.token_hex(_ID_BYTES)}_{secrets.token_urlsafe(_SECRET_BYTES)}"
        content = json.dumps({"format": _FORMAT, "sha256": _digest(token)}) + "\n"
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if replace:
                self._path.unlink(missing_ok=True)
            create_private_file(self._path, content.encode())
        except OSError as error:
            raise self._wrong(error.strerror or str(error)) from error
        # Another process may have been faster.
        return token if self.read().opens(token) else None

    def read(self) -> TokenDigest:
        """The digest in the file.

        Raises:
            PipelineError: SERVE.TOKEN_FILE: it is missing or damaged, or others may read or change it.
        """
        try:
            with self._path.open("rb") as file:
                mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
                document = json.loads(file.read())
            digest = document["sha256"]
        except OSError as error:
            raise self._wrong(error.strerror or str(error)) from error
        except (ValueError, LookupError, TypeError):
            raise self._wrong("it is damaged") from None
        if mode & 0o077:
            raise self._wrong(f"others may read or change it: its mode is {mode:o}")
        if document.get("format") != _FORMAT or not isinstance(digest, str) or len(digest) != sha256().digest_size * 2:
            raise self._wrong("it is damaged, or of a newer version")
        return TokenDigest(digest)

    def _wrong(self, reason: str) -> PipelineError:
        return PipelineError("SERVE.TOKEN_FILE", file=self._path, reason=reason)


class TokenDigest:
    """What a token is checked against."""

    def __init__(self, digest: str) -> None:
        self._digest = digest

    def opens(self, token: str) -> bool:
        """Whether a text is the token; takes as long for a wrong text as for the right one."""
        return hmac.compare_digest(_digest(token[:_LONGEST]), self._digest)


def _digest(token: str) -> str:
    return sha256(token.encode("utf-8", "replace")).hexdigest()
