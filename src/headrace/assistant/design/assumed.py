"""Answers that the requirements did not state: defaults, proposals from samples, a delay that was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.assistant.design.sampling.finding import NO_FINDINGS, Findings

DELAY = "lateness.within"


@dataclass(frozen=True)
class Assumed:
    """Where answers come from that the requirements did not state.

    Attributes:
        defaults: paths of the answers that are defaults.
        findings: what samples proposed, and what they contradict.
        delay: where the delay of watermarks comes from, if it was measured in a table.
    """

    defaults: tuple[str, ...] = ()
    findings: Findings = NO_FINDINGS
    delay: str | None = None

    @property
    def origin_of_delay(self) -> str | None:
        """Where the delay of watermarks comes from; None if it is stated."""
        proposal = self.findings.by_path.get(DELAY)
        if self.delay is not None or proposal is None:
            return self.delay
        return f"it is proposed from a sample: {proposal.figure[0].lower()}{proposal.figure[1:-1]}"

    @property
    def marks(self) -> Mapping[str, str]:
        """Comments on the answers by their path, for the requirements of the project."""
        found = dict.fromkeys(self.defaults, "default")
        found |= {proposal.path: "proposed from a sample" for proposal in self.findings.proposals}
        return found if self.delay is None else {**found, DELAY: "measured"}


NOTHING_ASSUMED = Assumed()
