"""Restores names that ``from pyspark.sql.functions import *`` imported before Spark 4; vendor documents use them."""

from __future__ import annotations

import pyspark.sql.functions

# Spark 4 has them, but does not list them in ``__all__``.
_FORMER = (
    "approxCountDistinct",
    "bitwiseNOT",
    "countDistinct",
    "shiftLeft",
    "shiftRight",
    "shiftRightUnsigned",
    "sumDistinct",
    "toDegrees",
    "toRadians",
)


def install() -> None:
    """Make a star import include them."""
    known = pyspark.sql.functions.__all__
    known.extend(name for name in _FORMER if name not in known and hasattr(pyspark.sql.functions, name))
