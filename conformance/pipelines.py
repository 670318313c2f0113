"""Runs blocks that declare datasets as the files of one pipeline."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from conformance.claims import Claim, DocumentClaims, Kind, PipelineClaim
from conformance.extract import Block
from conformance.running import Scene, Verdict, execute, holds, question, told, wrong
from conformance.wording import as_run, less_replaced
from headrace.errors import PipelineError, Problems
from headrace.project.open import Project

_LONGEST = 1500


def judged_together(
    made: PipelineClaim, members: Sequence[tuple[Block, Claim]], said: DocumentClaims, scene: Scene
) -> list[Verdict]:
    """Run the pipeline that some blocks are files of; a verdict for each of them.

    Args:
        made: what the mapping says of the pipeline.
        members: the blocks.
        said: the whole mapping.
        scene: a ready session.
    """
    began = time.monotonic()
    found: dict[str, list[str]] = {block.name: [] for block, _ in members}
    try:
        for block, claim in members:
            if claim.kind is Kind.REPLACED:
                found[block.name] += _needless(made, block, claim, said, scene)
        common = _together(made, members, said, scene, found)
    except Exception as error:  # noqa: BLE001 - whatever the pipeline raises is the verdict of its blocks
        common = [_told(error, said)]
    seconds = (time.monotonic() - began) / len(members)
    return [Verdict(block.name, scene.edition, (*common, *found[block.name]), seconds) for block, _ in members]


def _together(
    made: PipelineClaim,
    members: Sequence[tuple[Block, Claim]],
    said: DocumentClaims,
    scene: Scene,
    found: dict[str, list[str]],
) -> list[str]:
    places = scene.place(f"{said.document}-{made.name}")
    texts = {block.name: as_run(block, claim, said, places) for block, claim in members}
    with scene.runs.settings():
        _write(made, texts, said, scene)
        for block, claim in members:
            found[block.name] += [
                f"{question(check)} was answered before the pipeline ran"
                for check in claim.checks
                if holds(check, scene.names, scene.runs, "")
            ]
        faults = _update(scene)
        if made.feed and not faults:
            execute(made.feed, f"<{said.document} {made.name} feed>", scene.names)
            faults = _update(scene)
        if not faults:
            # As a script of the project finds its tables.
            scene.names.update(scene.runs.names(scene.folder, fresh=True))
            for block, claim in members:
                found[block.name] += wrong(claim.checks, scene.names, scene.runs, "")
    return faults


def _needless(made: PipelineClaim, block: Block, claim: Claim, said: DocumentClaims, scene: Scene) -> list[str]:
    """Nothing, when a pipeline of the block alone fails without what is replaced as the claim says."""
    found = []
    for way, pattern, text in less_replaced(block, claim, said):
        places = scene.place(f"{block.name}-{way.replace(' ', '-')}")
        with scene.runs.settings():
            _write(made, {block.name: text(places)}, said, scene)
            try:
                faults = _update(scene)
            except Exception as error:  # noqa: BLE001 - what is looked for
                faults = [_told(error, said)]
        if not any(re.search(pattern, fault) for fault in faults):
            found.append(f"{way} it should fail with {pattern!r}, and {faults or 'runs'}"[:_LONGEST])
    return found


def _write(made: PipelineClaim, texts: Mapping[str, str], said: DocumentClaims, scene: Scene) -> None:
    execute(said.prelude, f"<{said.document} prelude>", scene.names)
    execute(made.given, f"<{said.document} {made.name} given>", scene.names)
    scene.names["here"].give_away()
    settings: dict[str, Any] = {"name": made.name, "connectors": ["kafka"], **made.settings}
    files = {f"transformations/{name.replace('-', '_')}.py": f"{said.prelude}\n{text}" for name, text in texts.items()}
    for path, text in {"pipeline.yml": yaml.safe_dump(settings), **files, **made.files}.items():
        file = scene.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def _update(scene: Scene) -> list[str]:
    outcome = Project.open(scene.folder).run().to_json()
    if outcome["state"] == "COMPLETED":
        return []
    flows = [f"{flow['flow']} {flow['state']}: {flow['reason']}" for flow in outcome["flows"]]
    return [f"the update ended as {outcome['state']}: {outcome['error']}; {'; '.join(flows)}"[:_LONGEST]]


def _told(error: Exception, said: DocumentClaims) -> str:
    if isinstance(error, Problems):
        return "; ".join(problem.render() for problem in error.errors)[:_LONGEST]
    return error.render()[:_LONGEST] if isinstance(error, PipelineError) else told(error, said)
