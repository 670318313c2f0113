"""A pipeline that is set up once per module, and restored for each test."""

from __future__ import annotations

import copy
import shutil
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.testing.driver import Pipeline


class Prepared:
    """Keeps a copy of a pipeline's folder, with its tables and checkpoints.

    Args:
        pipeline: what the tests start from. Nothing else may use its folder.
        kept: where the copy goes.
    """

    def __init__(self, pipeline: Pipeline, kept: Path) -> None:
        self._pipeline = pipeline
        self._stand_ins = copy.deepcopy(pipeline._stand_ins)
        self._kept = kept
        shutil.copytree(pipeline.folder, kept)

    def restored(self) -> Pipeline:
        """The pipeline as it was prepared, at the same path, because checkpoints contain absolute paths."""
        folder = self._pipeline.folder
        shutil.rmtree(folder)
        shutil.copytree(self._kept, folder)
        # Delta's cache still has the tables that the test before has changed.
        SparkSession.active()._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        pipeline = copy.copy(self._pipeline).restart()
        pipeline._stand_ins = copy.deepcopy(self._stand_ins)
        return pipeline
