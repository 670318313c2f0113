"""Why an update ran. Names follow the vendor's event log, as far as the causes exist here."""

from __future__ import annotations

from enum import Enum


class UpdateCause(str, Enum):
    """The reason that the caller of an update gives; nobody else knows it."""

    USER_ACTION = "USER_ACTION"
    SCHEDULE = "SCHEDULE"
    FILE_ARRIVAL = "FILE_ARRIVAL"
    TABLE_UPDATE = "TABLE_UPDATE"
    API_CALL = "API_CALL"
    RETRY_ON_FAILURE = "RETRY_ON_FAILURE"
