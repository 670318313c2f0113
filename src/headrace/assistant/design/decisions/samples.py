"""What samples propose and contradict, as decisions of a design."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.assistant.design.decisions.decision import Decision
from headrace.assistant.design.sampling.finding import Contradiction, Findings, Proposal


def sample_decisions(findings: Findings) -> Iterator[Decision]:
    """A decision for each proposal, and for each statement that stays although a sample differs."""
    yield from map(_proposed, findings.proposals)
    yield from map(_differing, findings.contradictions)


def _proposed(proposal: Proposal) -> Decision:
    return Decision(
        f"proposed.{proposal.path}",
        proposal.answer,
        f"proposed from a sample, because the requirements do not say. {proposal.figure.removesuffix('.')}",
        ("state the answer in the requirements",),
        proposal.page,
    )


def _differing(one: Contradiction) -> Decision:
    return Decision(
        f"differs.{one.path}",
        f"{one.stated}, as stated",
        f"a sample differs: {one.figure}",
        (one.remedy,),
        one.page,
        falls_short=True,
    )
