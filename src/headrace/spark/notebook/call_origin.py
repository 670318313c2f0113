"""Whether a call of a PySpark method comes from user code or from this package."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import FrameType

import pyspark

from headrace.spark.readers import auto_loader, custom_formats, delta_reader, input_file, kafka_reader
from headrace.spark.session import listeners

_PACKAGE = str(Path(__file__).parents[2]) + os.sep
_SPARK_ROOMS = Path(__file__).parents[1]
# Code that only forwards calls: PySpark's, the wrappers of its methods, and Delta's, which is in its jar.
_FORWARDING = (
    str(Path(pyspark.__file__).parent) + os.sep,
    *(str(_SPARK_ROOMS / room) + os.sep for room in ("notebook", "startup")),
    *(
        module.__file__ or ""
        for module in (auto_loader, custom_formats, delta_reader, input_file, kafka_reader, listeners)
    ),
)
_IN_DELTA = ("delta-spark", f"{os.sep}delta{os.sep}tables.py")


def by_user() -> bool:
    """True when the nearest caller, besides PySpark and the wrappers, is not in this package."""
    frame = _caller()
    return frame is None or not frame.f_code.co_filename.startswith(_PACKAGE)


def called_from() -> tuple[str, int]:
    """The file and the line of that caller."""
    frame = _caller()
    return ("", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def _caller() -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _forwards(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def _forwards(file: str) -> bool:
    return file.startswith(_FORWARDING) or (_IN_DELTA[0] in file and file.endswith(_IN_DELTA[1]))
