"""Roles: what somebody may do, from looking on to everything. Each role may also do what those before it may."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

_SCOPE_KEY = "headrace.principal"


class Role(str, Enum):
    """A role, from the one that may do least to the one that may do most."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    APPROVER = "approver"
    ADMIN = "admin"

    @property
    def meaning(self) -> str:
        """What it adds to the role before it."""
        return _MEANINGS[self]

    def includes(self, needed: Role) -> bool:
        """Whether this role may do what another one may."""
        order = list(Role)
        return order.index(self) >= order.index(needed)


def refusal(role: Role, needed: Role) -> str:
    """Why a role cannot do what another one may; empty if it can."""
    return "" if role.includes(needed) else f"Needs the role {needed.value}; yours is {role.value}."


_MEANINGS = {
    Role.VIEWER: "sees pages and facts, and no rows of tables or quarantines",
    Role.OPERATOR: "sees rows; runs and stops updates, replays, maintains, makes savepoints and plans, answers alerts",
    Role.APPROVER: "also approves and rejects plans",
    Role.ADMIN: "also pauses and resumes schedules, restores and removes savepoints, rolls plans back",
}


@dataclass(frozen=True)
class Principal:
    """Who sends a request.

    Attributes:
        name: of the token.
        role: what it may do.
        is_browser: the request has the cookie of a session, and not the token.
        session: the digest of the cookie, to which the forms of its pages are bound; empty without a cookie.
    """

    name: str
    role: Role
    is_browser: bool = False
    session: str = field(default="", repr=False)


def with_principal(scope: MutableMapping[str, Any], principal: Principal) -> MutableMapping[str, Any]:
    """The scope of a request, with who sends it."""
    return {**scope, _SCOPE_KEY: principal}


def principal_of(scope: MutableMapping[str, Any]) -> Principal:
    """Who sends a request; the door has let it in."""
    found = scope[_SCOPE_KEY]
    if not isinstance(found, Principal):
        raise TypeError(_SCOPE_KEY)
    return found
