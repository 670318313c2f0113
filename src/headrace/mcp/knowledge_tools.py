"""Tools on the knowledge base; they need no project."""

from __future__ import annotations

from typing import Annotated

from mcp_types import CallToolResult
from pydantic import Field

from headrace.mcp.answers import Answers
from headrace.mcp.results import Document, FoundPages

# Pages are ours, and are not cut.
PAGE_CHARACTERS = 80_000

Category = Annotated[str, Field(description='The category of a page, such as "pipeline".')]
Name = Annotated[str, Field(description='The name of a page, such as "streaming-tables".')]


class KnowledgeTools:
    """The tools that read the knowledge base."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    async def get_document(self, category: Category, name: Name) -> Annotated[CallToolResult, Document]:
        """Read a page of the knowledge base: standards, guides, troubleshooting and operation of streaming tables.

        For example ("pipeline", "streaming-tables") or ("medallion-architecture", "layer-specifications").
        """
        words = ["docs", "get", "--", category, name]
        return await self._answers.result(Document, words, most_characters=PAGE_CHARACTERS)

    async def search_documents(
        self,
        query: Annotated[str, Field(max_length=1_000, description="Words, a symptom or an error message.")],
        category: Annotated[str | None, Field(description="Search only this category.")] = None,
        limit: Annotated[int, Field(ge=1, le=20, description="The maximum number of pages.")] = 5,
    ) -> Annotated[CallToolResult, FoundPages]:
        """Search the knowledge base, the best page first. Read a page that it finds with get_document."""
        options = [f"--limit={limit}", *([f"--category={category}"] if category else [])]
        words = ["docs", "search", *options, "--", query]
        return await self._answers.result(FoundPages, words, lambda found: {"pages": found})
