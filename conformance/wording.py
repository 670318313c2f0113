"""The text that runs for a block: its own text, after places, edits and completions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from conformance.claims import Claim, DocumentClaims, Edit
from conformance.extract import Block

# Makes the text of a block from the values of its places.
Wording = Callable[[Mapping[str, str]], str]
_MARK = re.compile(r"@@(?P<first>\d+)(?:-(?P<last>\d+))?@@")


def as_written(block: Block, claim: Claim, mapping: DocumentClaims, places: Mapping[str, str]) -> str:
    """The block's own text, with only servers, paths and credentials replaced."""
    return _placed(block.text, claim, mapping, places)


def as_run(block: Block, claim: Claim, mapping: DocumentClaims, places: Mapping[str, str]) -> str:
    """The text that runs for the block: its own, its replacement, or its completion.

    Args:
        block: the block.
        claim: its claim.
        mapping: the whole mapping.
        places: the current values of the names in the mapping's places.

    Raises:
        ValueError: the text of an edit is not found, or a completion omits a line.
    """
    text = _edited(claim.code or block.text, claim.edits, block)
    if claim.completion:
        text = completed(text, claim.completion)
    return _placed(text, claim, mapping, places)


def replacement_proofs(block: Block, claim: Claim, mapping: DocumentClaims) -> list[tuple[str, str, Wording]]:
    """The texts that prove a replacement necessary: label, pattern of the expected error, and text of each."""
    found: list[tuple[str, str, Wording]] = [("as written", claim.refused, partial(as_written, block, claim, mapping))]
    for number, edit in enumerate(claim.edits, 1):
        if edit.without:
            found.append((f"without edit {number}", edit.without, partial(_without, edit, block, claim, mapping)))
    return found


def places_of(claim: Claim, mapping: DocumentClaims) -> dict[str, str]:
    """The texts for servers, paths and credentials in a block, with their replacements."""
    return {**dict(mapping.places), **claim.places}


def completed(fragment: str, completion: str) -> str:
    """The completion, with the fragment's lines inserted unchanged.

    Raises:
        ValueError: a non-comment line of the fragment is not inserted exactly once.
    """
    lines = fragment.split("\n")
    used: list[int] = []

    def insert_lines(mark: re.Match[str]) -> str:
        first, last = int(mark["first"]), int(mark["last"] or mark["first"])
        used.extend(range(first, last + 1))
        return "\n".join(lines[first - 1 : last])

    text = _MARK.sub(insert_lines, completion)
    wanted = [number for number, line in enumerate(lines, 1) if line.strip() and not line.lstrip().startswith("#")]
    misused = [number for number in wanted if used.count(number) != 1]
    if misused:
        raise ValueError(f"lines {misused} of the fragment are not in its completion exactly once")
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
    """Replace places in one pass, longest first, so that no replacement is replaced again."""
    known = places_of(claim, mapping)
    if not known:
        return text
    pattern = re.compile("|".join(map(re.escape, sorted(known, key=len, reverse=True))))
    return pattern.sub(lambda found: known[found.group()].format_map(places), text)
