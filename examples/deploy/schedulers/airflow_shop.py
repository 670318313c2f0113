"""An Airflow DAG that updates a pipeline. Put it into the folder of DAGs, with headrace_result.py beside it.

Each dataset that the update changes is an event of its asset, such as ``headrace://shop/orders``, so that other DAGs
can start on it.
"""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from airflow.sdk import DAG, Asset, AssetAlias, BaseOperator
from headrace_result import TaskState, task_result

PROJECT = "/srv/shop"
HEADRACE = "/srv/shop/.venv/bin/headrace"


class HeadraceRun(BaseOperator):
    """Runs one update; returns the number of rows written into each dataset that it changed."""

    def __init__(self, *, project: str, pipeline: str, **options: Any) -> None:
        super().__init__(outlets=[AssetAlias(pipeline)], **options)
        self.project = project
        self.pipeline = pipeline
        self._process: subprocess.Popen[str] | None = None

    def execute(self, context: Any) -> dict[str, int]:
        """Run the update."""
        words = [HEADRACE, "--project", self.project, "--output", "json", "run", "--cause", "schedule"]
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        printed, _ = self._process.communicate()
        result = task_result(self._process.returncode, printed)
        for asset in result.assets:
            context["outlet_events"][AssetAlias(self.pipeline)].add(
                Asset(f"headrace://{self.pipeline}/{asset.name}"), extra=asset.rows
            )
        if result.state is TaskState.NOTHING_NEW:
            raise AirflowSkipException(result.message)
        if result.state is TaskState.FAILED:
            raise AirflowFailException(result.message)
        if result.state is TaskState.RETRY:
            raise AirflowException(result.message)
        return {asset.name: asset.rows["rows_written"] for asset in result.assets}

    def on_kill(self) -> None:
        """Stop the update in an orderly way."""
        if self._process is not None:
            self._process.terminate()


with DAG(
    "shop",
    schedule=timedelta(minutes=10),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    # A second update could not take the lease.
    max_active_runs=1,
):
    HeadraceRun(task_id="update", project=PROJECT, pipeline="shop", retries=3, retry_delay=timedelta(minutes=1))
