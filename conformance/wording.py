"""The text that is run for a block: its own, with places, edits and completions put in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from conformance.claims import Claim, DocumentClaims, Edit
from conformance.extract import Block

# A text of a block, by what its places stand for.
Wording = Callable[[Mapping[str, str]], str]
_MARK = re.compile(r"@@(?P<first>\d+)(?:-(?P<last>\d+))?@@")


def as_written(block: Block, claim: Claim, mapping: DocumentClaims, places: Mapping[str, str]) -> str:
    """The block's own text, in which nothing but servers, paths and credentials is others."""
    return _placed(block.text, claim, mapping, places)


def as_run(block: Block, claim: Claim, mapping: DocumentClaims, places: Mapping[str, str]) -> str:
    """What is run for the block: its own text, what takes its place, or what it is completed to.

    Args:
        block: of the document.
        claim: of the block.
        mapping: all that the mapping says.
        places: what the names in the mapping's places stand for now.

    Raises:
        ValueError: an edit is not found, or a completion leaves a line out.
    """
    text = _edited(claim.code or block.text, claim.edits, block)
    if claim.completion:
        text = completed(text, claim.completion)
    return _placed(text, claim, mapping, places)


def replacement_proofs(block: Block, claim: Claim, mapping: DocumentClaims) -> list[tuple[str, str, Wording]]:
    """The texts that show what a replacement is needed for: how each is called, what it has to fail with, and it."""
    found: list[tuple[str, str, Wording]] = [("as written", claim.refused, partial(as_written, block, claim, mapping))]
    for number, edit in enumerate(claim.edits, 1):
        if edit.without:
            found.append((f"without edit {number}", edit.without, partial(_without, edit, block, claim, mapping)))
    return found


def places_of(claim: Claim, mapping: DocumentClaims) -> dict[str, str]:
    """What stands for servers, paths and credentials in a block, and what it is here."""
    return {**dict(mapping.places), **claim.places}


def completed(fragment: str, completion: str) -> str:
    """The completion with the fragment's lines in it, as they are.

    Raises:
        ValueError: a line of the fragment that is no comment is not in it exactly once.
    """
    lines = fragment.split("\n")
    used: list[int] = []

    def taken(mark: re.Match[str]) -> str:
        first, last = int(mark["first"]), int(mark["last"] or mark["first"])
        used.extend(range(first, last + 1))
        return "\n".join(lines[first - 1 : last])

    text = _MARK.sub(taken, completion)
    wanted = [number for number, line in enumerate(lines, 1) if line.strip() and not line.lstrip().startswith("#")]
    failed_checks = [number for number in wanted if used.count(number) != 1]
    if failed_checks:
        raise ValueError(f"lines {failed_checks} of the fragment are not in its completion exactly once")
    return text


def _without(edit: Edit, block: Block, claim: Claim, mapping: DocumentClaims, places: Mapping[str, str]) -> str:
    """The block's text with all edits but one."""
    rest = [one for one in claim.edits if one is not edit]
    return _placed(_edited(block.text, rest, block), claim, mapping, places)


def _edited(text: str, edits: Iterable[Edit], block: Block) -> str:
    for edit in edits:
        if edit.before not in text:
            raise ValueError(f"{block.name} has no {edit.before!r}")
        text = text.replace(edit.before, edit.after)
    return text


def _placed(text: str, claim: Claim, mapping: DocumentClaims, places: Mapping[str, str]) -> str:
    """The longest texts first, in one pass, so that nothing is put into what was put in."""
    known = places_of(claim, mapping)
    if not known:
        return text
    pattern = re.compile("|".join(map(re.escape, sorted(known, key=len, reverse=True))))
    return pattern.sub(lambda found: known[found.group()].format_map(places), text)
