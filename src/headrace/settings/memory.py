"""The memory of the driver, by the settings."""

from __future__ import annotations

import re

from headrace.settings.settings import Settings

DRIVER_MEMORY_KEY = "spark.driver.memory"
# What a session gets that does not set it.
DEFAULT_DRIVER_MEMORY = "2g"
# As Spark reads it: without a unit, MiB.
_SIZE = re.compile(r"(?P<number>\d+)(?P<unit>[kmgtp]?)b?", re.IGNORECASE)
_UNITS = {"k": 10, "": 20, "m": 20, "g": 30, "t": 40, "p": 50}


def driver_memory_bytes(settings: Settings) -> int:
    """The bytes of the driver's heap; 0 if the setting is a reference, or no size."""
    found = _SIZE.fullmatch(settings.spark_conf.get(DRIVER_MEMORY_KEY, DEFAULT_DRIVER_MEMORY).strip())
    return 0 if found is None else int(found["number"]) << _UNITS[found["unit"].lower()]
