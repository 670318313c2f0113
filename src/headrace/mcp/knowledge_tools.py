"""Tools on the knowledge base; they need no project and no process of their own."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import anyio.to_thread
from mcp_types import CallToolResult
from pydantic import Field

from headrace.assistant.knowledge.library import library
from headrace.errors import PipelineError
from headrace.mcp.answers import Answers, success
from headrace.mcp.results import Document, FoundPages

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
        try:
            page = await anyio.to_thread.run_sync(lambda: library().get(category, name))
        except PipelineError as error:
            return self._answers.failure(error)
        return success(Document, page.to_json())

    async def search_documents(
        self,
        query: Annotated[str, Field(max_length=1_000, description="Words, a symptom or an error message.")],
        category: Annotated[str | None, Field(description="Search only this category.")] = None,
        limit: Annotated[int, Field(ge=1, le=20, description="The maximum number of pages.")] = 5,
    ) -> Annotated[CallToolResult, FoundPages]:
        """Search the knowledge base, the best page first. Read a page that it finds with get_document."""
        search = partial(library().search, query, category, limit)
        try:
            hits = await anyio.to_thread.run_sync(search)
        except PipelineError as error:
            return self._answers.failure(error)
        return success(FoundPages, {"pages": [hit.to_json() for hit in hits]})
