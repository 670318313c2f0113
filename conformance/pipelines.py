"""Runs blocks that declare datasets as the files of one pipeline."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from conformance.claims import Claim, DocumentClaims, Kind, PipelineClaim
from conformance.extract import Block
from conformance.running import Scene, Verdict, error_text, execute, failed_checks, passes, question
from conformance.wording import as_run, replacement_proofs
from headrace.errors import PipelineError, Problems
from headrace.project.open import Project

_LONGEST = 1500


def run_pipeline_blocks(
    pipeline: PipelineClaim, members: Sequence[tuple[Block, Claim]], mapping: DocumentClaims, scene: Scene
) -> list[Verdict]:
    """Run a pipeline whose files are blocks, and return a verdict for each block.

    Args:
        pipeline: the claim about the pipeline.
        members: the blocks.
        mapping: the whole mapping.
        scene: a scene with the notebook session.
    """
    began = time.monotonic()
    found: dict[str, list[str]] = {block.name: [] for block, _ in members}
    try:
        for block, claim in members:
            if claim.kind is Kind.REPLACED:
                found[block.name] += _replacement_faults(pipeline, block, claim, mapping, scene)
        common = _together(pipeline, members, mapping, scene, found)
    except Exception as error:  # noqa: BLE001 - any error is the verdict of the blocks
        common = [_error_text(error, mapping)]
    seconds = (time.monotonic() - began) / len(members)
    return [Verdict(block.name, scene.edition, (*common, *found[block.name]), seconds) for block, _ in members]


def _together(
    pipeline: PipelineClaim,
    members: Sequence[tuple[Block, Claim]],
    mapping: DocumentClaims,
    scene: Scene,
    found: dict[str, list[str]],
) -> list[str]:
    places = scene.prepare(f"{mapping.document}-{pipeline.name}")
    texts = {block.name: as_run(block, claim, mapping, places) for block, claim in members}
    with scene.runner.settings():
        _write(pipeline, texts, mapping, scene)
        for block, claim in members:
            found[block.name] += [
                f"{question(check)} was answered before the pipeline ran"
                for check in claim.checks
                if passes(check, scene.names, scene.runner, "")
            ]
        faults = _update(scene)
        if pipeline.feed and not faults:
            execute(pipeline.feed, f"<{mapping.document} {pipeline.name} feed>", scene.names)
            faults = _update(scene)
        if not faults:
            # The names with which a script of the project finds its tables.
            scene.names.update(scene.runner.names(scene.folder, fresh=True))
            for block, claim in members:
                found[block.name] += failed_checks(claim.checks, scene.names, scene.runner, "")
    return faults


def _replacement_faults(
    pipeline: PipelineClaim, block: Block, claim: Claim, mapping: DocumentClaims, scene: Scene
) -> list[str]:
    """Faults, unless a pipeline of the block alone fails as claimed without its replacement."""
    found = []
    for way, pattern, text in replacement_proofs(block, claim, mapping):
        places = scene.prepare(f"{block.name}-{way.replace(' ', '-')}")
        with scene.runner.settings():
            _write(pipeline, {block.name: text(places)}, mapping, scene)
            try:
                faults = _update(scene)
            except Exception as error:  # noqa: BLE001 - the expected result
                faults = [_error_text(error, mapping)]
        if not any(re.search(pattern, fault) for fault in faults):
            found.append(f"{way} it should fail with {pattern!r}, and {faults or 'runs'}"[:_LONGEST])
    return found


def _write(pipeline: PipelineClaim, texts: Mapping[str, str], mapping: DocumentClaims, scene: Scene) -> None:
    execute(mapping.prelude, f"<{mapping.document} prelude>", scene.names)
    execute(pipeline.given, f"<{mapping.document} {pipeline.name} given>", scene.names)
    scene.names["here"].give_away()
    settings: dict[str, Any] = {"name": pipeline.name, "connectors": ["kafka"], **pipeline.settings}
    files = {
        f"transformations/{name.replace('-', '_')}.py": f"{mapping.prelude}\n{text}" for name, text in texts.items()
    }
    for path, text in {"pipeline.yml": yaml.safe_dump(settings), **files, **pipeline.files}.items():
        file = scene.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def _update(scene: Scene) -> list[str]:
    outcome = Project.open(scene.folder).run().to_json()
    if outcome["state"] == "COMPLETED":
        return []
    flows = [f"{flow['flow']} {flow['state']}: {flow['reason']}" for flow in outcome["flows"]]
    return [f"the update ended as {outcome['state']}: {outcome['error']}; {'; '.join(flows)}"[:_LONGEST]]


def _error_text(error: Exception, mapping: DocumentClaims) -> str:
    if isinstance(error, Problems):
        return "; ".join(problem.render() for problem in error.errors)[:_LONGEST]
    return error.render()[:_LONGEST] if isinstance(error, PipelineError) else error_text(error, mapping)
