"""Tools that tell how a pipeline is doing; they read the event log and the storage."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from mcp_types import CallToolResult
from pydantic import Field

from headrace.mcp.answers import Answers
from headrace.mcp.project_tools import limited_rows, listed
from headrace.mcp.results import Checklist, Diagnosis, Events, Rows, Status
from headrace.mcp.verbs import SESSION_S

Limit = Annotated[int, Field(ge=1, le=1_000, description="The maximum number of rows, the newest ones.")]
Flow = Annotated[str | None, Field(description="Only this flow.")]
# The characters of a name that is part of a query: none of them can end a text.
QueriedFlow = Annotated[str | None, Field(pattern=r"^[\w.@ -]+$", max_length=255, description="Only this flow.")]
QueryStatus = Annotated[
    Literal["ACTIVE", "STOPPED", "FAILED", "LOST"] | None, Field(description="Only queries in this status.")
]
_QUERIES = "SELECT * FROM system.streaming.queries{where} ORDER BY last_progress_at DESC, id"
_PROGRESS = "SELECT * FROM system.streaming.query_progress{where} ORDER BY timestamp DESC, batch_id DESC"


class MonitoringTools:
    """The tools that read the event log and the storage."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    async def status(self, flow: Flow = None) -> Annotated[CallToolResult, Status]:
        """Show the last update: its state, its error, and rows, lag and state of each flow. Starts no JVM."""
        return await self._answers.result(Status, ["status"], lambda found: _status(found, flow))

    async def events(
        self,
        level: Annotated[
            list[Literal["INFO", "WARN", "ERROR", "METRICS"]] | None, Field(description="Only these levels.")
        ] = None,
        flow: Flow = None,
        event_type: Annotated[
            str | None, Field(description="Only this type, such as flow_progress or update_progress.")
        ] = None,
        limit: Limit = 50,
    ) -> Annotated[CallToolResult, Events]:
        """Read the newest events of the event log, the oldest of them first. Starts no JVM."""
        selected = [*listed("--flow", [flow] if flow else ()), *listed("--type", [event_type] if event_type else ())]
        words = ["events", f"--limit={limit + 1}", *listed("--level", level), *selected]

        def newest(found: list[Any]) -> dict[str, Any]:
            return {"events": found[-limit:], "truncated": len(found) > limit}

        return await self._answers.result(Events, words, newest)

    async def streaming_queries(
        self, flow: QueriedFlow = None, status: QueryStatus = None, limit: Limit = 100
    ) -> Annotated[CallToolResult, Rows]:
        """List the streaming queries of all updates with status and last error. Starts a JVM."""
        return await self._select(_QUERIES, {"name": flow, "status": status}, limit)

    async def query_progress(self, flow: QueriedFlow = None, limit: Limit = 100) -> Annotated[CallToolResult, Rows]:
        """Read the newest reports of streaming queries: rows, rates, durations, slowest phase. Starts a JVM."""
        return await self._select(_PROGRESS, {"query_name": flow}, limit)

    async def doctor(self, flow: Flow = None) -> Annotated[CallToolResult, Diagnosis]:
        """Find what is wrong or at risk, with evidence, remedy and command. Starts no JVM."""
        return await self._answers.result(Diagnosis, ["doctor", *(["--", flow] if flow else [])])

    async def check(
        self,
        *,
        strict: Annotated[bool, Field(description="Count a criterion without evidence as failed.")] = False,
    ) -> Annotated[CallToolResult, Checklist]:
        """Check the success criteria of streaming tables, each with evidence. Starts no JVM."""
        return await self._answers.result(Checklist, ["check", *(["--strict"] if strict else [])])

    async def _select(self, query: str, values: dict[str, str | None], limit: int) -> CallToolResult:
        """The rows of a query of ours; the values cannot contain quotes."""
        conditions = [f"{column} = '{value}'" for column, value in values.items() if value is not None]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        words = ["sql", f"--limit={limit + 1}", "--", query.format(where=where)]
        return await self._answers.result(Rows, words, lambda found: limited_rows(found, limit), timeout_s=SESSION_S)


def _status(found: dict[str, Any] | None, flow: str | None) -> dict[str, Any]:
    if found is None:
        return {"has_update": False}
    flows = [state for state in found["flows"] if flow is None or flow in (state["flow"], state["dataset"])]
    return {"has_update": True, **found, "flows": flows}
