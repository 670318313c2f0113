"""Prompts: the conversations that a user can start with one choice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.prompts.base import Prompt
from pydantic import Field

from headrace.mcp.answers import Answers

Text = Annotated[str, Field(description="In your own words.")]
Table = Annotated[str, Field(description="A table of the pipeline.")]
Column = Annotated[str, Field(description="Its event time column.")]
Flow = Annotated[str, Field(description="A flow, or the dataset that it writes to.")]
Subject = Annotated[str, Field(description="A subject, such as watermarks.")]


def design_streaming_table(goal: Text) -> str:
    """Design a streaming table from requirements."""
    return f"""\
Design a streaming table with Headrace. The goal, in the words of the user:

{goal}

1. Call get_workflow, then read get_document("pipeline", "streaming-tables") and
   get_document("medallion-architecture", "layer-specifications").
2. Write the requirements down as YAML: sources, latency, lateness, state, guarantee, on_error, history, outputs.
3. Call design_questions. Ask the user each open question, with its default and its consequence. Do not answer for them.
4. Call design. Show the decisions with their reasons, the diagram, and the checklist.
5. Write the files only after the user agrees. Then call lint, validate and plan.
"""


def handle_late_events(table: Table, column: Column) -> str:
    """Choose how long to wait for late events."""
    return f"""\
Choose a watermark for the table "{table}", whose event time is in the column "{column}".

1. Call lateness for the table and the column.
2. Ask the user which share of rows may be dropped, and what a dropped row costs.
3. Propose a delay. Say which share it drops by the measurement, and how much longer state is kept.
4. Read get_document("guides", "watermarks") for what happens to rows that are late all the same.
5. Show the change of the code, and what plan says about it.
"""


def investigate_flow(flow: Flow) -> str:
    """Find out why a flow is slow, late, wrong or failed."""
    return f"""\
Find out what is wrong with the flow "{flow}".

1. Call doctor for the flow. Quote the evidence of its first finding.
2. Call status, and events with level WARN and ERROR for the flow.
3. Read the document that the finding names.
4. Say what happened, what it means for the rows, and the remedy with its command. Say whether the command is safe.
5. Change nothing before the user agrees. Afterwards, call doctor again.
"""


def plan_change(change: Text) -> str:
    """Plan a change of a pipeline that has data."""
    return f"""\
Plan this change of the pipeline, which already has data:

{change}

1. Call explain for each dataset that the change touches, and graph for those that read them.
2. Propose the edit. Call lint and validate on it.
3. Call plan. Say what is recomputed, which checkpoints are reset, and which rows could not be read again.
4. Name the way that loses nothing, if there is one: a new column, a new flow, a backfill, a rename.
5. Say how to go back.
"""


def practise(subject: Subject = "streaming tables") -> str:
    """Practise with questions and exercises."""
    return f"""\
Let the user practise {subject}.

1. Call search_documents with the category "practice".
2. Ask one question at a time. Wait for the answer.
3. Say what is right and what is not, and why. Read get_document for the subject first, and name the page.
4. Offer an exercise on a project of the user's own: `headrace init practice`.
"""


def add_prompts(server: MCPServer[Answers]) -> None:
    """Register the prompts."""
    prompts: tuple[Callable[..., str], ...] = (
        design_streaming_table,
        handle_late_events,
        investigate_flow,
        plan_change,
        practise,
    )
    for prompt in prompts:
        server.add_prompt(Prompt.from_function(prompt))
