"""Tools that check and read a project; each is a verb of the command line, and writes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from mcp_types import CallToolResult
from pydantic import Field

from headrace.errors import PipelineError
from headrace.mcp.answers import Answers
from headrace.mcp.query_check import check_reads_tables
from headrace.mcp.results import Explanation, Graph, LintFindings, MeasuredLateness, Rows, UpdatePlan
from headrace.mcp.verbs import SESSION_S

Names = Annotated[
    list[str] | None,
    Field(
        description="Datasets, each as name, name+ (and all below), +name, tag:x, kind:x, source:x or state:modified."
    ),
]
Flows = Annotated[
    list[str] | None,
    Field(description="Flows whose checkpoints are reset, each FLOW or FLOW=START (earliest, latest, version:N)."),
]


def listed(option: str, values: Sequence[str] | None) -> list[str]:
    """An option once for each value; the form ``--option=value`` keeps a value from being read as an option."""
    return [f"{option}={value}" for value in values or ()]


class ProjectTools:
    """The tools that check a project's code and read its tables."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    async def lint(
        self,
        files: Annotated[list[str] | None, Field(description="Files and folders. Default: the project's.")] = None,
        select: Annotated[list[str] | None, Field(description="Check only these rules.")] = None,
        ignore: Annotated[list[str] | None, Field(description="Check all rules except these.")] = None,
    ) -> Annotated[CallToolResult, LintFindings]:
        """Find code that fails or misbehaves on open-source Spark, with the replacement. Runs no code."""
        words = ["lint", *listed("--select", select), *listed("--ignore", ignore), "--", *(files or ())]
        return await self._answers.result(LintFindings, words)

    async def validate(self) -> Annotated[CallToolResult, Graph]:
        """Check the whole project and report all problems: settings, code, names, schemas. Starts a JVM."""
        return await self._answers.result(Graph, ["validate"], timeout_s=SESSION_S)

    async def graph(self) -> Annotated[CallToolResult, Graph]:
        """Show the datasets and flows, and what each flow reads. Starts a JVM."""
        return await self._answers.result(Graph, ["graph"], timeout_s=SESSION_S)

    async def plan(
        self,
        refresh: Names = None,
        full_refresh: Names = None,
        reset_checkpoint: Flows = None,
        exclude: Names = None,
    ) -> Annotated[CallToolResult, UpdatePlan]:
        """Show what an update would do and why, and which rows a full refresh would lose. Starts a JVM."""
        words = ["plan", *update_options(refresh, full_refresh, reset_checkpoint, exclude)]
        return await self._answers.result(UpdatePlan, words, timeout_s=SESSION_S)

    async def explain(
        self, name: Annotated[str, Field(description="A dataset, an error code or a lint rule.")]
    ) -> Annotated[CallToolResult, Explanation]:
        """Explain a dataset, an error code such as GRAPH.CYCLE, or a lint rule. A dataset starts a JVM."""
        return await self._answers.result(Explanation, ["explain", "--", name], timeout_s=SESSION_S)

    async def preview(
        self,
        dataset: Annotated[str, Field(description="A dataset of the pipeline.")],
        rows: Annotated[int, Field(ge=1, le=1_000, description="The maximum number of rows.")] = 20,
    ) -> Annotated[CallToolResult, Rows]:
        """Compute some rows of one dataset on real input. Starts a JVM."""
        words = ["preview", f"--rows={rows}", "--", dataset]
        return await self._answers.result(Rows, words, _rows, timeout_s=SESSION_S)

    async def lateness(
        self,
        table: Annotated[str, Field(description="A table that flows append to.")],
        column: Annotated[str, Field(description="The event time column.")],
        commits: Annotated[
            int, Field(ge=2, le=100_000, description="How many of the latest commits to check.")
        ] = 1_000,
        dropped_share: Annotated[
            float, Field(ge=0.0, le=1.0, description="The share of rows that a watermark may drop.")
        ] = 0.001,
    ) -> Annotated[CallToolResult, MeasuredLateness]:
        """Measure how late rows arrive, and which watermark fits. Starts no JVM."""
        words = ["lateness", f"--commits={commits}", f"--share={dropped_share}", "--", table, column]
        return await self._answers.result(MeasuredLateness, words)

    async def sql(
        self,
        query: Annotated[str, Field(max_length=20_000, description="One SELECT statement.")],
        limit: Annotated[int, Field(ge=1, le=1_000, description="The maximum number of rows.")] = 100,
        timeout_s: Annotated[int, Field(ge=1, le=900, description="When to give up, in seconds.")] = 120,
    ) -> Annotated[CallToolResult, Rows]:
        """Run one SELECT on the pipeline's tables, the event log and system tables. Starts a JVM.

        Statements that change data are refused, and those that read files, topics or variables by name.
        """
        try:
            check_reads_tables(query)
        except PipelineError as error:
            return self._answers.failure(error)
        words = ["sql", f"--limit={limit + 1}", "--", query]
        return await self._answers.result(Rows, words, lambda found: limited_rows(found, limit), timeout_s=timeout_s)


def update_options(
    refresh: Sequence[str] | None,
    full_refresh: Sequence[str] | None,
    reset_checkpoint: Sequence[str] | None,
    exclude: Sequence[str] | None,
) -> list[str]:
    """The options of an update."""
    return [
        *listed("--refresh", refresh),
        *listed("--full-refresh", full_refresh),
        *listed("--reset-checkpoint", reset_checkpoint),
        *listed("--exclude", exclude),
    ]


def limited_rows(found: list[Any], limit: int) -> dict[str, Any]:
    """The first rows, and whether there are more."""
    return {**_rows(found[:limit]), "truncated": len(found) > limit}


def _rows(found: list[Any]) -> dict[str, Any]:
    return {"rows": found, "row_count": len(found)}
