"""What the buttons of a page may do for whoever looks at it, and why not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headrace.serve.roles import Principal, Role, refusal


@dataclass(frozen=True)
class Offers:
    """The forms that a page may show to whoever looks at it.

    Attributes:
        slug: the pipeline's name in URLs.
        principal: who looks.
        token: of all forms of the session.
        new_key: makes the id of the request of a form, so that a form that is sent twice does nothing twice.
        here: the path of the page, to which a form leads back.
        roles: that operations need, by their names in the API.
    """

    slug: str
    principal: Principal
    token: str
    new_key: Callable[[], str]
    here: str
    roles: Mapping[str, Role]

    def url(self, operation: str) -> str:
        """Where the form of an operation is sent to, and where its page is."""
        return f"/p/{self.slug}/forms/{operation}"

    def refusal(self, operation: str) -> str:
        """Why this role cannot do it; empty if it can."""
        return refusal(self.principal.role, self.roles[operation])

    @property
    def admin_refusal(self) -> str:
        """Why only an admin can do something; empty for an admin."""
        return refusal(self.principal.role, Role.ADMIN)

    @property
    def user(self) -> str:
        """The name of who looks."""
        return self.principal.name
