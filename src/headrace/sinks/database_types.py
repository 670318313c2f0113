"""Column types of a new database table, from Spark's types."""

from __future__ import annotations

import json
import re
from typing import Any

from headrace.model.schema import Schema

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def column_types(rows: Schema) -> dict[str, Any]:
    """The SQLAlchemy type of each column of a schema; structs, arrays and maps are JSON texts."""
    return {column.name: _type(json.loads(column.json_type)) for column in rows.columns}


def is_nested(json_type: str) -> bool:
    """True if a type in Spark's JSON is a struct, an array or a map."""
    return not isinstance(json.loads(json_type), str)


def _type(spark_type: Any) -> Any:
    import sqlalchemy as sa  # noqa: PLC0415 - an extra

    if not isinstance(spark_type, str):
        return sa.Text()
    decimal = _DECIMAL.fullmatch(spark_type)
    if decimal:
        return sa.Numeric(int(decimal[1]), int(decimal[2]))
    simple = {
        "boolean": sa.Boolean(),
        "byte": sa.SmallInteger(),
        "short": sa.SmallInteger(),
        "integer": sa.Integer(),
        "long": sa.BigInteger(),
        "float": sa.Float(24),
        "double": sa.Double(),
        "date": sa.Date(),
        "timestamp": sa.DateTime(timezone=True),
        "timestamp_ntz": sa.DateTime(),
        "binary": sa.LargeBinary(),
    }
    return simple.get(spark_type, sa.Text())
