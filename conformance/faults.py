"""The mismatches between a mapping and its document."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from conformance.claims import Claim, DocumentClaims, Kind
from conformance.extract import Block
from conformance.wording import places_of

# Formats and option names define what a block does, so places must not replace them.
_NO_PLACES = re.compile(
    r"""\.format\(\s*(?P<format>["'][^"'\n]*["'])\s*\)|\.option\(\s*(?P<name>["'][^"'\n]*["'])\s*,"""
)
# A reference to this machine; a place without one would be a value made up by the mapping.
_OF_HERE = re.compile(r"\{\w+\}")


def faults(blocks: Sequence[Block], mapping: DocumentClaims, known: Iterable[int]) -> list[str]:
    """The mismatches as texts: blocks without a claim, changed blocks, claims without a check, and others."""
    claims = {claim.name: claim for claim in mapping.claims}
    found = [f"{claim.name} is claimed twice" for claim in mapping.claims if claims[claim.name] is not claim]
    found += [f"{name} is no block of the document" for name in claims.keys() - {block.name for block in blocks}]
    for block in blocks:
        claim = claims.get(block.name)
        if claim is None:
            found.append(f"{block.name} (line {block.line}, {block.digest}) is in no kind")
        elif claim.digest != block.digest or claim.line != block.line:
            found.append(
                f"{block.name} has changed: it was {claim.digest} at line {claim.line}, "
                f"and is {block.digest} at line {block.line}"
            )
        else:
            found += [f"{block.name}: {fault}" for fault in _place_faults(block, claim, mapping)]
    found += [f"{claim.name}: {fault}" for claim in mapping.claims for fault in _own_faults(claim, mapping, known)]
    return found


def _own_faults(claim: Claim, mapping: DocumentClaims, known: Iterable[int]) -> list[str]:
    wanted = {
        "an effect that is checked": claim.kind is Kind.NOT_CODE or bool(claim.checks and claim.checked),
        "a number of a replacement that is described": (claim.kind is Kind.REPLACED) == bool(claim.replacement)
        and (not claim.replacement or claim.replacement in known),
        "what it is replaced by, and what it fails with as it is written": (claim.kind is Kind.REPLACED)
        == bool((claim.edits or claim.code) and claim.refused),
        "its own text": not (claim.edits or claim.code) or claim.kind in (Kind.REPLACED, Kind.COMPLETED),
        "a completion": (claim.kind is Kind.COMPLETED) == bool(claim.completion),
        "the block before it in its session to go on from": not claim.goes_on
        or claim.goes_on == _before(claim, mapping),
        "a pipeline that is described": not claim.pipeline or claim.pipeline in {one.name for one in mapping.pipelines},
    }
    return [f"it needs {what}, and no other kind has that" for what, is_met in wanted.items() if not is_met]


def _before(claim: Claim, mapping: DocumentClaims) -> str:
    """The name of the preceding block that the claim's block may continue from; empty without one."""
    alone = [
        one.name
        for one in mapping.claims
        if one.session == claim.session and one.kind is not Kind.NOT_CODE and not one.pipeline
    ]
    return next((first for first, second in pairwise(alone) if second == claim.name), "")


def _place_faults(block: Block, claim: Claim, mapping: DocumentClaims) -> Iterator[str]:
    """Check that places replace servers, paths and credentials, but no formats or option names."""
    for text, here in places_of(claim, mapping).items():
        if text in block.text and not _OF_HERE.search(here):
            yield f"the place {text!r} becomes {here!r}, which is no server, path or credential of this machine"
    for found in _NO_PLACES.finditer(block.text):
        what = "format" if found["format"] else "name"
        for text in places_of(claim, mapping):
            for place in re.finditer(re.escape(text), block.text):
                if place.start() < found.end(what) and found.start(what) < place.end():
                    yield f"the place {text!r} is in {found.group()!r}, which is a format or the name of an option"
