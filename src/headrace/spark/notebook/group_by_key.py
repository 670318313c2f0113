"""``groupByKey`` of frames, which Scala and Java have alone."""

from __future__ import annotations

from typing import Any, NoReturn

from pyspark.errors import PySparkAttributeError

from headrace.errors import PipelineError
from headrace.spark.notebook.notebook_session import ready_for


def group_by_key(self: Any, *_arguments: Any, **_options: Any) -> NoReturn:
    """Refuse by name what documents show in Python and no Python has; elsewhere as Spark does.

    Raises:
        PipelineError: SCRIPT.NOT_IN_PYTHON.
    """
    if ready_for(self.sparkSession) is None:
        raise PySparkAttributeError(errorClass="ATTRIBUTE_NOT_SUPPORTED", messageParameters={"attr_name": "groupByKey"})
    raise PipelineError("SCRIPT.NOT_IN_PYTHON", what="groupByKey(...).mapGroupsWithState(...)")
