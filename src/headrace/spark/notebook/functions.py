"""Names that ``from pyspark.sql.functions import *`` gave before Spark 4, as it does with the vendor's documents."""

from __future__ import annotations

import pyspark.sql.functions

# Spark 4 has them, and leaves them out of what a star brings.
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
    """Let a star import bring them."""
    known = pyspark.sql.functions.__all__
    known.extend(name for name in _FORMER if name not in known and hasattr(pyspark.sql.functions, name))
