"""The blocks of code on pages of the knowledge base, and the projects that they make."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.assistant.knowledge.generated import ERRORS, RULES
from headrace.assistant.knowledge.library import library
from headrace.assistant.knowledge.page import Page

# Texts and programs of these come from tables that have tests of their own.
WRITTEN = tuple(page for page in library().pages if page.category not in (ERRORS, RULES))
LANGUAGES = ("python", "sql", "yaml", "bash")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (\S+\.py)\n")
_DEFINED = re.compile(r"def (\w+)\(|(?:create_streaming_table|create_sink)\(\s*\"(\w+)\"|(?:TABLE|VIEW) (\w+)")
_COMMAND = re.compile(r"`(headrace [^`]*)`")
# What readers of the pages have, and the pages read: columns and a row.
TABLES = {
    "orders": (
        """
        order_id BIGINT, customer STRING, product STRING, shop STRING, quantity INT, price DECIMAL(10, 2),
        amount DECIMAL(10, 2), status STRING, placed_at TIMESTAMP, updated_at TIMESTAMP
        """,
        {
            "order_id": 1,
            "customer": "c1",
            "product": "tea",
            "shop": "web",
            "quantity": 2,
            "price": 2.5,
            "amount": 5,
            "status": "paid",
            "placed_at": "2026-01-01T10:00:00",
            "updated_at": "2026-01-01T10:00:00",
        },
    ),
    "payments": (
        "payment_id BIGINT, order_id BIGINT, amount DECIMAL(10, 2), paid_at TIMESTAMP",
        {"payment_id": 1, "order_id": 1, "amount": 5, "paid_at": "2026-01-01T10:05:00"},
    ),
    "clicks": (
        "event_id STRING, user STRING, page STRING, at TIMESTAMP",
        {"event_id": "e1", "user": "u1", "page": "home", "at": "2026-01-01T10:00:00"},
    ),
    "impressions": (
        "ad STRING, user STRING, shown_at TIMESTAMP",
        {"ad": "a1", "user": "u1", "shown_at": "2026-01-01T10:00:00"},
    ),
    "readings": (
        "device STRING, value STRING, read_at TIMESTAMP",
        {"device": "d1", "value": "20.5", "read_at": "2026-01-01T10:00:00"},
    ),
    "customers": (
        "customer STRING, name STRING, updated_at TIMESTAMP",
        {"customer": "c1", "name": "Ann", "updated_at": "2026-01-01T10:00:00"},
    ),
    "customer_changes": (
        "id BIGINT, name STRING, version BIGINT, operation STRING",
        {"id": 1, "name": "Ann", "version": 1, "operation": "INSERT"},
    ),
}


@dataclass(frozen=True)
class Block:
    """A block of code of a page; *file* is where it belongs in a project."""

    page: str
    language: str
    text: str
    file: str


def blocks_of(page: Page) -> Iterator[Block]:
    """The fenced blocks of a page in their order."""
    for number, (language, text) in enumerate(_BLOCK.findall(page.body)):
        named = _FILE.match(text)
        suffix = "sql" if language == "sql" else "py"
        file = named[1] if named else f"transformations/block{number}.{suffix}"
        yield Block(page.path, language, text, file)


def commands_of(page: Page) -> Iterator[str]:
    """Every command of Headrace that a page shows to be copied."""
    for block in blocks_of(page):
        if block.language == "bash":
            for line in block.text.splitlines():
                yield from (part for part in line.split(" && ") if part.startswith("headrace"))


def mentioned_commands_of(page: Page) -> Iterator[str]:
    """Every command of Headrace in the text of a page, where its arguments can be left out."""
    yield from _COMMAND.findall(_BLOCK.sub("", page.body))


def is_query(block: Block) -> bool:
    """Whether a block is for `headrace sql`."""
    return block.language == "sql" and block.text.lstrip().startswith(("SELECT", "WITH"))


def project_of(page: Page, landing: Path) -> dict[str, str]:
    """The files of a project with the blocks of a page, and with the tables that the blocks read.

    Args:
        page: the page.
        landing: a folder that :func:`write_landing` filled. Relative paths start where the command is called.
    """
    files = {
        block.file: block.text.replace("landing/", f"{landing}/")
        for block in blocks_of(page)
        if block.language in ("python", "sql") and not is_query(block)
    }
    code = "\n".join(files.values())
    defined = {name for found in _DEFINED.findall(code) for name in found if name}
    given = [name for name in TABLES if name not in defined and re.search(rf"\b{name}\b", code)]
    tables = [_given(name, landing) for name in given]
    return {**files, "transformations/given.py": "\n\n".join(["from headrace import pipelines as dp", *tables])}


def write_landing(folder: Path) -> None:
    """Write one file with a row for each table."""
    for name, (_, row) in {**TABLES, "old_payments": TABLES["payments"]}.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "1.json").write_text(json.dumps(row) + "\n", encoding="utf-8")


def _given(name: str, landing: Path) -> str:
    reader, decorator = ("read", "materialized_view") if name == "customers" else ("readStream", "streaming_table")
    return (
        f"@dp.{decorator}\ndef {name}():\n"
        f'    return spark.{reader}.schema("""{TABLES[name][0]}""").json("{landing / name}")\n'
    )
