"""When maintenance may start an action: within its window, and for a limited time."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model.maintenance import MaintenancePolicy


@dataclass(frozen=True)
class Limits:
    """The limits of one maintenance.

    Attributes:
        policy: the settings.
        started_at: when it began, in seconds since 1970.
        anytime: the window does not matter.
    """

    policy: MaintenancePolicy
    started_at: float
    anytime: bool = False

    @property
    def is_outside(self) -> bool:
        """Whether it began outside of the window."""
        window = self.policy.window
        return window is not None and not self.anytime and not window.contains(self.started_at)

    def reason_to_wait(self, now: float) -> str:
        """Why no action may start now; empty if one may."""
        window, most_s = self.policy.window, self.policy.most_s
        if window is not None and not self.anytime and (self.is_outside or now >= window.ends_at(self.started_at)):
            return f"outside of maintenance.window {window}"
        if most_s is not None and now - self.started_at >= most_s:
            return f"maintenance.max_minutes ({most_s / 60:g}) have passed"
        return ""
