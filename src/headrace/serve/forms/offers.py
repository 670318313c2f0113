"""What the buttons of a page may do for whoever looks at it, and why not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.serve.api.routes import ROUTES
from headrace.serve.roles import Principal, Role

_WRITES = {route.name: route for route in ROUTES if route.writes}


@dataclass(frozen=True)
class Offers:
    """The forms that a page may show to whoever looks at it.

    Attributes:
        slug: the pipeline's name in URLs.
        principal: who looks.
        token: of all forms of the session.
        new_key: makes the id of the request of a form, so that a form that is sent twice does nothing twice.
        here: the path of the page, to which a form leads back.
    """

    slug: str
    principal: Principal
    token: str
    new_key: Callable[[], str]
    here: str

    def url(self, operation: str) -> str:
        """Where the form of an operation is sent to, and where its page is."""
        return f"/p/{self.slug}/forms/{_WRITES[operation].name}"

    def refusal(self, operation: str) -> str:
        """Why this role cannot do it; empty if it can."""
        needed, role = _WRITES[operation].role, self.principal.role
        return "" if role.includes(needed) else f"Needs the role {needed.value}; yours is {role.value}."

    @property
    def admin_refusal(self) -> str:
        """Why only an admin can do something; empty for an admin."""
        role = self.principal.role
        return "" if role.includes(Role.ADMIN) else f"Needs the role {Role.ADMIN.value}; yours is {role.value}."

    @property
    def user(self) -> str:
        """The name of who looks."""
        return self.principal.name
