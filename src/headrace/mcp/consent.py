"""Asks the user before anything is written: shows what would be done, and takes yes or no."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mcp.server.mcpserver import AcceptedElicitation, Context, Elicit, ElicitationResult
from mcp_types import CallToolResult
from pydantic import BaseModel, Field

from headrace.errors import PipelineError
from headrace.mcp.answers import Answers
from headrace.mcp.verbs import VerbFailedError

AskingContext = Context[Answers, Any]


class Consent(BaseModel):
    """The answer of the user."""

    proceed: bool = Field(title="Do it", description="Yes: do it. No: write nothing.")


@dataclass(frozen=True)
class NotAsked:
    """The user was not asked, because there is nothing to agree to."""

    error: VerbFailedError


Question = Elicit[Consent] | NotAsked


def answers_of(context: AskingContext) -> Answers:
    """What the server calls verbs with."""
    return context.request_context.lifespan_context


def can_ask(context: Context[Any, Any]) -> bool:
    """Whether the client can show a question to its user."""
    capabilities = context.client_capabilities
    asking = capabilities.elicitation if capabilities is not None else None
    # A bare capability, without modes, means forms.
    return asking is not None and (asking.form is not None or asking.url is None)


def question(context: AskingContext, shown: str, words: Sequence[str]) -> Question:
    """The question whether to run a verb, or a refusal that has the command for a terminal.

    Args:
        context: of the call.
        shown: what would be done.
        words: the verb and its options.
    """
    command = shlex.join(["headrace", *words])
    if not can_ask(context):
        return NotAsked(VerbFailedError.of(PipelineError("MCP.CANNOT_ASK", verb=words[0], command=command)))
    return Elicit(f"{shown}\n\n{command}", Consent)


def refusal(answers: Answers, outcome: ElicitationResult[Any], words: Sequence[str]) -> CallToolResult | None:
    """The result of a tool that may not write; None if the user agreed."""
    if isinstance(outcome, AcceptedElicitation):
        if isinstance(outcome.data, NotAsked):
            return answers.failure(outcome.data.error)
        if outcome.data.proceed:
            return None
    return answers.failure(PipelineError("MCP.DECLINED", command=shlex.join(["headrace", *words])))
