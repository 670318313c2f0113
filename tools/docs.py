"""Write the reference pages generated from the code: `make docs`. A test compares them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import groupby
from pathlib import Path

from alerts_page import alerts_page
from api_page import api_page
from auto_loader_cases_page import auto_loader_cases_page
from auto_loader_page import auto_loader_reference
from command_line_page import command_line_page
from completion_grammar import completion_grammar
from doctor_page import doctor_page
from event_hubs_page import event_hubs_reference
from headrace.errors import Condition, conditions
from headrace.model.warning_codes import warning_codes
from headrace.serve.api.openapi import openapi_text
from headrace.settings.json_schema import schema_text
from kafka_page import kafka_reference
from knowledge_page import knowledge_page
from lint_page import lint_reference
from metrics_page import metrics_page
from notebook_session_page import notebook_session_page
from requirements_page import requirements_reference
from settings_page import settings_reference
from sinks_page import sinks_reference
from sources_page import sources_reference
from system_tables_page import system_tables_page
from vendor_api_page import vendor_api_page

_PARAMETER = re.compile(r"\{\w+\}\.?")
DOCS = Path(__file__).resolve().parent.parent / "docs"
_ERRORS = """\
# Errors

Every error has a code, a message and a hint, and a location if it comes from a file. On a terminal it looks like this:

    error[CODE]: the message
      --> transformations/orders.py:42
      detail: more about this case
      hint: what to do

`headrace explain CODE` prints the section of this page about a code.

With `--output json`, an error is an object with `code`, `message`, `detail`, `hint`, `location` and `params`. Names in
braces on this page are parameters of the error.

The [codes of warnings](#warnings), which are only in the event log, are at the end.
"""
_WARNINGS = """\
## Warnings

The event log has these codes in events of the type `warning`. `headrace explain CODE` explains them too. Warnings with
the code of an error are above. The level of a warning is `ERROR` if rows are lost, otherwise `WARN`.
"""


def errors_page() -> str:
    """The expected text of docs/reference/errors.md."""
    parts = [_ERRORS]
    by_code = sorted(conditions().values(), key=lambda condition: condition.code)
    for group, members in groupby(by_code, key=lambda condition: condition.code.partition(".")[0]):
        parts.append(f"## {group}\n")
        parts.extend(_section(condition) for condition in members)
    parts.append(_WARNINGS)
    parts.extend(
        f"### {found.code}\n\n{found.meaning}\n\n**What to do:** {found.hint}\n" for found in warning_codes().values()
    )
    return "\n".join(parts)


def _section(condition: Condition) -> str:
    texts = [f"### {condition.code}\n\n`{condition.message}`"]
    # A detail that is one parameter says nothing without its value.
    texts += [text for text in (condition.detail, condition.meaning) if text and not _PARAMETER.fullmatch(text)]
    texts.append(f"**What to do:** {condition.plain_hint}")
    return "\n\n".join(texts) + "\n"


PAGES: Mapping[str, Callable[[], str]] = {
    "reference/alerts.md": alerts_page,
    "reference/api.md": api_page,
    "reference/auto-loader.md": auto_loader_reference,
    "reference/auto-loader-cases.md": auto_loader_cases_page,
    "reference/command-line.md": command_line_page,
    "reference/doctor.md": doctor_page,
    "reference/errors.md": errors_page,
    "reference/event-hubs.md": event_hubs_reference,
    "reference/kafka.md": kafka_reference,
    "reference/knowledge-base.md": knowledge_page,
    "reference/lint.md": lint_reference,
    "reference/metrics.md": metrics_page,
    "reference/notebook-session.md": notebook_session_page,
    "reference/requirements.md": requirements_reference,
    "reference/settings.md": settings_reference,
    "reference/sinks.md": sinks_reference,
    "reference/sources.md": sources_reference,
    "reference/system-tables.md": system_tables_page,
    "reference/vendor-api.md": vendor_api_page,
}

# Generated files that are no pages, by their paths in the project.
FILES: Mapping[str, Callable[[], str]] = {
    "docs/reference/openapi.json": openapi_text,
    "docs/reference/pipeline.schema.json": schema_text,
    "src/headrace/cli/completion/grammar.json": completion_grammar,
}

if __name__ == "__main__":
    for path, text in {**{f"docs/{name}": page for name, page in PAGES.items()}, **FILES}.items():
        (DOCS.parent / path).write_text(text(), encoding="utf-8")
        print(path)
