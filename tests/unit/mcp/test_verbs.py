"""What a verb printed becomes a value or an error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.mcp.verbs import VerbFailedError, VerbOutput, document_of

ERROR = {"code": "A.B", "message": "m", "hint": "h", "detail": None, "location": None, "params": {}}


@pytest.mark.parametrize(
    ("stdout", "value"),
    [
        ("null\n", None),
        ('{"a": 1}\n', {"a": 1}),
        ("[\n1,\n2\n]\n", [1, 2]),
        ('hello from a query\n{"a": 1}\n', {"a": 1}),
        ('{"printed": "by code"}\n[1]\n', [1]),
        ('[progress] 1\n{"a": [\n1]}\n', {"a": [1]}),
        # Lint says what it found, and what it could not read.
        (
            json.dumps({"error": ERROR, "problems": [ERROR], "files": 1}),
            {"error": ERROR, "problems": [ERROR], "files": 1},
        ),
    ],
)
def test_the_document_is_the_last_value_that_was_printed(stdout: str, value: Any) -> None:
    assert document_of(["sql"], VerbOutput(1, stdout)) == value


def test_an_error_document_is_a_failure_with_all_problems() -> None:
    other = {**ERROR, "code": "C.D"}
    output = VerbOutput(2, json.dumps({"error": ERROR, "problems": [ERROR, other]}))

    with pytest.raises(VerbFailedError) as caught:
        document_of(["validate"], output)

    found = caught.value.to_json()
    assert (found["error"]["code"], found["error"]["exit_code"]) == ("A.B", 2)
    assert [problem["code"] for problem in found["problems"]] == ["A.B", "C.D"]


def test_a_verb_without_a_document_fails_with_the_end_of_its_stderr() -> None:
    with pytest.raises(VerbFailedError) as caught:
        document_of(["run"], VerbOutput(-9, "Killed", "x" * 5_000 + "\nno space left\n"))

    (problem,) = caught.value.problems
    assert problem["code"] == "MCP.NO_RESULT"
    assert problem["detail"].endswith("no space left")
    assert len(problem["detail"]) < 600
