"""What `make site` changes in the pages, so that they read on the site as they do on a code host."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import yaml
from mkdocs.structure.files import File, InclusionLevel

# The pages of the knowledge base are part of the package. On the site they are below this folder.
_KNOWLEDGE = Path("src/headrace/assistant/knowledge/pages")
_SITE_FOLDER = "knowledge"

_LINK = re.compile(r"(?<!!)\[([^]]+)\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")
_BLOCK = re.compile(r"^(```.*?^```)$", re.MULTILINE | re.DOTALL)
_PARAGRAPH_BEFORE_LIST = re.compile(r"^(?![-*|#>\s]|\d+\. )(.+)\n(?=- |\d+\. )", re.MULTILINE)
_TABLE_ROW = re.compile(r"^\|.*\|$", re.MULTILINE)
_CODE = re.compile(r"`[^`]+`")


def on_files(files: Any, *, config: Any, **_: Any) -> Any:
    """Add the pages of the knowledge base; the reference has links to them."""
    for file in sorted((Path(config.docs_dir).resolve().parent / _KNOWLEDGE).glob("*/*.md")):
        path = f"{_SITE_FOLDER}/{file.parent.name}/{file.name}"
        inclusion = InclusionLevel.NOT_IN_NAV
        files.append(File.generated(config, path, content=_knowledge_page(file), inclusion=inclusion))
    return files


def _knowledge_page(file: Path) -> str:
    _, front, body = file.read_text(encoding="utf-8").split("---\n", 2)
    fields = yaml.safe_load(front)
    related = "\n".join(f"- [{path}](../{path}.md)" for path in fields.get("related", ()))
    return f"# {fields['title']}\n\n{body}\n## Related\n\n{related}\n"


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """The text of a page as Python-Markdown must have it to show what a code host shows.

    - A link to a file outside of docs/ becomes plain text and the path in the repository: the site has no such page.
    - A list after a paragraph gets an empty line before it.
    - A pipe in the code of a table's cell needs no backslash.
    """
    if page.parent is None:
        # It has no neighbours to list in the left column.
        page.meta.setdefault("hide", ["navigation"])
    docs = Path(config.docs_dir).resolve()
    folder = (docs / page.file.src_uri).parent
    parts = _BLOCK.split(markdown)
    # Every second part is a block of code.
    parts[::2] = [_prose(part, docs, folder) for part in parts[::2]]
    return "".join(parts)


def _prose(text: str, docs: Path, folder: Path) -> str:
    text = _LINK.sub(lambda link: _link(link, docs, folder), text)
    text = _PARAGRAPH_BEFORE_LIST.sub(r"\1\n\n", text)
    return _TABLE_ROW.sub(lambda row: _CODE.sub(lambda code: code[0].replace(r"\|", "|"), row[0]), text)


def _link(link: re.Match[str], docs: Path, folder: Path) -> str:
    target = (folder / link[2]).resolve()
    knowledge = docs.parent / _KNOWLEDGE
    if target.is_relative_to(knowledge):
        on_site = os.path.relpath(docs / _SITE_FOLDER / target.relative_to(knowledge), folder)
        return f"[{link[1]}]({on_site}{link[3] or ''})"
    if target.is_relative_to(docs) or not target.exists():
        # A page of the site, or a mistake, which the strict build reports.
        return link[0]
    path = f"`{target.relative_to(docs.parent)}`"
    return path if link[1].strip("`") == path.strip("`") else f"{link[1]} ({path})"
