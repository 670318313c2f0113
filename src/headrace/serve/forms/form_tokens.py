"""Tokens of forms: a form is accepted only in the session in which its page was opened."""

from __future__ import annotations

import hmac
from hashlib import sha256

from headrace.serve.roles import Principal


class FormTokens:
    """Makes and checks the tokens of forms. Nothing is stored: a token is a digest of the session.

    Args:
        secret: known to this process alone.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def of(self, principal: Principal) -> str:
        """The token of all forms of a session."""
        # Sessions of proxies have no secret of their own: the name of the user stands for it.
        return hmac.new(self._secret, f"{principal.session}\n{principal.name}".encode(), sha256).hexdigest()

    def is_of(self, text: str, principal: Principal) -> bool:
        """Whether a token was made for a session."""
        return hmac.compare_digest(text.encode("utf-8", "replace"), self.of(principal).encode())
