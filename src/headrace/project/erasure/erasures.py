"""Erasures of rows of a person from the storage of a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import SparkSession

from headrace.model.erasure import Erasure, ErasureRequest
from headrace.project.erasure.eraser import Eraser
from headrace.settings.settings import Settings


class Erasures:
    """Finds and erases rows.

    Args:
        settings: the pipeline's.
        environ: the process environment.
        session: opens the session.
        redact: removes secrets from a text.
    """

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        session: Callable[[], SparkSession],
        redact: Callable[[str], str],
    ) -> None:
        self._settings = settings
        self._environ = environ
        self._session = session
        self._redact = redact

    def find(self, request: ErasureRequest) -> Erasure:
        """What :meth:`erase` would erase, and what would stop it; writes nothing.

        Raises:
            PipelineError: ERASE.UNKNOWN, ERASE.NO_COLUMN, ERASE.DELTA_VERSION, ERASE.FAILED.
        """
        return self._eraser(request).find()

    def erase(self, request: ErasureRequest) -> Erasure:
        """Erase rows from tables, change events, quarantine, dead letters, spilled batches and the event log.

        Streams that read the tables continue. Running it again after a crash finishes it.

        Raises:
            PipelineError: as :meth:`find`; ERASE.UNREAD, ERASE.WAITING; LEASE.HELD if an update is running,
                MAINTENANCE.RUNNING if maintenance is.
        """
        return self._eraser(request).erase()

    def _eraser(self, request: ErasureRequest) -> Eraser:
        return Eraser(self._settings, self._environ, self._session(), self._redact, request)
