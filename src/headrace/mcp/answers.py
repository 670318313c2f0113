"""Turns what verbs return into results of tools, and failures into errors that an assistant can act on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from mcp_types import CallToolResult, TextContent

from headrace.errors import PipelineError, Problems
from headrace.mcp.redaction import Redact
from headrace.mcp.results import Result
from headrace.mcp.untrusted import MOST_CHARACTERS, cleaned
from headrace.mcp.verbs import QUICK_S, RunVerb, VerbFailedError, document_of

# About 30,000 tokens.
_MOST_RESULT_CHARACTERS = 100_000

_Value = TypeVar("_Value")


class Answers:
    """Calls verbs for tools.

    Args:
        run_verb: the port.
        redaction: makes the function that removes secrets from a text; called for each answer, because the secrets of
            a project change.
    """

    def __init__(self, run_verb: RunVerb, redaction: Callable[[], Redact]) -> None:
        self.run_verb = run_verb
        self._redaction = redaction

    async def value(
        self, words: Sequence[str], *, timeout_s: float = QUICK_S, most_characters: int = MOST_CHARACTERS
    ) -> Any:
        """The JSON document of a verb, cleaned.

        Raises:
            VerbFailedError: the verb failed.
        """
        document = document_of(words, await self.run_verb(words, timeout_s=timeout_s))
        return self.clean(document, most_characters)

    async def result(
        self,
        model: type[Result],
        words: Sequence[str],
        shape: Callable[[Any], Mapping[str, Any]] = dict,
        *,
        timeout_s: float = QUICK_S,
        most_characters: int = MOST_CHARACTERS,
    ) -> CallToolResult:
        """The result of a tool that calls one verb; *shape* turns the verb's document into the fields of the model."""
        try:
            value = await self.value(words, timeout_s=timeout_s, most_characters=most_characters)
        except VerbFailedError as error:
            return self.failure(error)
        return success(model, shape(value))

    def failure(self, error: VerbFailedError | PipelineError | Problems) -> CallToolResult:
        """The result of a tool that failed: one JSON text with code, message and hint.

        It has no structured content: clients compare that with the schema of a success, also if the tool failed.
        """
        failed = error if isinstance(error, VerbFailedError) else VerbFailedError.of(error)
        return CallToolResult(content=[_text(self.clean(failed.to_json()))], is_error=True)

    def clean(self, value: _Value, most_characters: int = MOST_CHARACTERS) -> _Value:
        """A JSON value without secrets and hidden characters."""
        found: _Value = cleaned(value, self._redaction(), most_characters)
        return found


def success(model: type[Result], fields: Mapping[str, Any]) -> CallToolResult:
    """The result of a tool with the fields of its model; the longest list is cut if the whole is too long."""
    named = [name for name in model.data_fields if name in fields]
    # The reader learns first what not to trust.
    whole = {"untrusted": named, "truncated": False, **_fitting(fields)}
    value = model.model_validate(whole).model_dump(mode="json", exclude_unset=True)
    ordered = {name: value[name] for name in whole}
    return CallToolResult(content=[_text(ordered)], structured_content=ordered)


def _fitting(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    found = dict(fields)
    while len(json.dumps(found, ensure_ascii=False)) > _MOST_RESULT_CHARACTERS:
        lists = {name: value for name, value in found.items() if isinstance(value, list) and value}
        if not lists:
            break
        longest = max(lists, key=lambda name: len(json.dumps(lists[name], ensure_ascii=False)))
        found[longest] = lists[longest][: len(lists[longest]) // 2]
        found["truncated"] = True
    return found


def _text(value: Any) -> TextContent:
    return TextContent(type="text", text=json.dumps(value, ensure_ascii=False))
