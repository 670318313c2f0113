"""``groupByKey`` of frames, which only Scala and Java have."""

from __future__ import annotations

from typing import Any, NoReturn

from pyspark.errors import PySparkAttributeError

from headrace.errors import PipelineError
from headrace.spark.notebook.notebook_session import notebook_for


def group_by_key(self: Any, *_arguments: Any, **_options: Any) -> NoReturn:
    """Refuse a method that documents show in Python, but that only Scala and Java have; elsewhere fail as Spark does.

    Raises:
        PipelineError: SCRIPT.NOT_IN_PYTHON.
    """
    if notebook_for(self.sparkSession) is None:
        raise PySparkAttributeError(errorClass="ATTRIBUTE_NOT_SUPPORTED", messageParameters={"attr_name": "groupByKey"})
    raise PipelineError("SCRIPT.NOT_IN_PYTHON", what="groupByKey(...).mapGroupsWithState(...)")
