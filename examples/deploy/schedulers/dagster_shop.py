"""Dagster assets for the datasets of a pipeline, all updated by one run; put headrace_result.py beside it.

``graph.json`` has the datasets: ``headrace --output json graph > graph.json``. Make it again when the code changes.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

from dagster import (
    AssetCheckResult,
    AssetCheckSpec,
    AssetExecutionContext,
    AssetKey,
    AssetSpec,
    Definitions,
    Failure,
    MaterializeResult,
    multi_asset,
)
from headrace_result import TaskState, dependencies, task_result

PROJECT = "/srv/shop"
HEADRACE = "/srv/shop/.venv/bin/headrace"
DATASETS = dependencies(Path(__file__).with_name("graph.json").read_text(encoding="utf-8"))


def _key(dataset: str) -> AssetKey:
    return AssetKey(["shop", *dataset.split(".")])


@multi_asset(
    name="shop",
    # A dataset without new rows has no event in this run.
    specs=[
        AssetSpec(_key(name), deps=[_key(read) for read in reads], skippable=True) for name, reads in DATASETS.items()
    ],
    check_specs=[AssetCheckSpec("expectations", asset=_key(name)) for name in DATASETS],
)
def shop(context: AssetExecutionContext) -> Iterator[MaterializeResult]:
    """Run one update."""
    words = [HEADRACE, "--project", PROJECT, "--output", "json", "run", "--cause", "schedule"]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
    result = task_result(done.returncode, done.stdout)
    context.log.info(result.message)
    for asset in result.assets:
        failed = {check.name: check.failed for check in asset.checks if check.failed}
        checked = AssetCheckResult(passed=not failed, check_name="expectations", metadata=failed)
        yield MaterializeResult(asset_key=_key(asset.name), metadata=asset.rows, check_results=[checked])
    if result.state in (TaskState.RETRY, TaskState.FAILED):
        raise Failure(result.message, allow_retries=result.state is TaskState.RETRY)


defs = Definitions(assets=[shop])
