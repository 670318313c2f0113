"""Erases a person's rows from the storage of a pipeline, under its lease, while no maintenance runs.

The steps are in an order in which a crash at any of them is safe: views are marked to be recomputed before rows go, and
files are deleted from every place that was searched, not only from those in which rows were found this time. So running
it again finishes it.
"""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.delta_log.erased_values import (
    UnusedFiles,
    has_v2_checkpoints,
    remove_old_values,
    remove_unused_files,
    unused_files,
    without_texts,
)
from headrace.errors import PipelineError
from headrace.events.envelope import Origin
from headrace.events.erased_texts import erase_from_events
from headrace.events.log import EventLog
from headrace.events.upkeep import RowsErased
from headrace.model.erasure import Erasure, ErasureRequest, PlaceKind, SearchedPlace, texts_in
from headrace.project.erasure.exclusion import exclusive
from headrace.project.erasure.search import EVENT_LOG_NAME, Search, Target, kept_files
from headrace.project.lease_holders import user_name
from headrace.settings.settings import Settings
from headrace.spark.delta.erase_rows import erase_rows, find_rows, forget_log, write_checkpoint
from headrace.spark.delta.transaction import is_supported
from headrace.spark.errors.spark_errors import innermost
from headrace.spark.jvm.causes import chain
from headrace.spark.jvm.process import jvm_pid
from headrace.spark.sinks.spilled_rows import erase_spilled_rows, find_spilled_rows
from headrace.storage.dead_letter_tables import dead_letter_table
from headrace.storage.dead_letters import clean_errors, count_errors, erase_dead_letters, matching_dead_letters
from headrace.storage.erasable import computed_from, recompute_later, waiting_batches


class Eraser:
    """Finds and erases the rows of one request.

    Args:
        settings: the pipeline's.
        environ: the process environment.
        session: the session.
        redact: removes secrets from a text.
        request: which rows.

    Raises:
        PipelineError: ERASE.UNKNOWN, ERASE.DELTA_VERSION.
    """

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        session: SparkSession,
        redact: Callable[[str], str],
        request: ErasureRequest,
    ) -> None:
        if not is_supported(session):
            raise PipelineError("ERASE.DELTA_VERSION")
        self._settings = settings
        self._environ = environ
        self._session = session
        self._redact = redact
        self._request = request
        self._layout, self._naming = settings.layout, settings.naming
        self._search = Search(settings, session, request)

    def find(self) -> Erasure:
        """What :meth:`erase` would find; writes nothing.

        Raises:
            PipelineError: ERASE.NO_COLUMN, ERASE.FAILED.
        """
        return self._without_values(self._search.find)

    def erase(self) -> Erasure:
        """Erase the rows.

        Raises:
            PipelineError: ERASE.UNREAD, ERASE.WAITING, ERASE.NO_COLUMN, LEASE.HELD, MAINTENANCE.RUNNING: nothing was
                written; ERASE.FAILED.
        """
        with exclusive(self._layout, self._environ) as lease:
            # After a crash, the next holder ends this JVM.
            lease.record_jvm(jvm_pid(self._session))
            return self._without_values(lambda: self._erase(lease.check))

    def _without_values(self, work: Callable[[], Erasure]) -> Erasure:
        """The result of *work*; errors of Spark become an error that does not repeat the values."""
        try:
            return work()
        except (PySparkException, Py4JJavaError) as error:
            message = str(error) if isinstance(error, PySparkException) else innermost(tuple(chain(error))).message
            reason = without_texts(message.strip().splitlines()[0], self._request.values).rstrip(".")
            raise PipelineError("ERASE.FAILED", reason=self._redact(reason)) from None

    def _erase(self, fence: Callable[[], None]) -> Erasure:
        targets, not_searched = self._search.targets()
        self._check(targets)
        places, recomputed = self._erase_tables(targets, fence)
        places += self._erase_other_rows(fence)
        self._search.check_found(targets, places)
        kept: list[tuple[str, UnusedFiles]] = []
        if not self._request.keep_files:
            places = [self._without_old_files(place, targets, fence, kept) for place in places]
        self._record(places)
        erased = self._search.report(places, not_searched, recomputed)
        mentions = tuple(self._search.mentions(targets))
        files = kept_files(kept)
        return replace(erased, is_done=True, keeps_files=self._request.keep_files, mentions=mentions, old_files=files)

    def _check(self, targets: list[Target]) -> None:
        blocked = list(self._search.blocked(targets))
        if blocked:
            raise PipelineError("ERASE.UNREAD", reasons=";\n".join(blocked))
        for flow in self._search.flows():
            for batch, may_be_sent in waiting_batches(flow):
                if may_be_sent and find_spilled_rows(self._session, batch, self._search.condition):
                    raise PipelineError("ERASE.WAITING", flow=flow.name, batch=batch.number)

    def _erase_tables(
        self, targets: list[Target], fence: Callable[[], None]
    ) -> tuple[list[SearchedPlace], tuple[str, ...]]:
        recomputed: dict[str, None] = {}
        places = []
        for target in targets:
            place, path = target.place, target.place.path
            is_read = computed_from(self._layout, self._naming, target.names)
            if is_read and find_rows(self._session, path, target.condition).rows:
                fence()
                recomputed |= dict.fromkeys(recompute_later(self._layout, self._naming, target.names))
            found = erase_rows(self._session, path, target.condition, fence)
            places.append(SearchedPlace(place.kind, place.name, found.rows, found.files))
        return places, tuple(recomputed)

    def _erase_other_rows(self, fence: Callable[[], None]) -> list[SearchedPlace]:
        search, places = self._search, []
        for flow in search.flows():
            folder = flow.file.parent
            ids = matching_dead_letters(folder, search.matches)
            cleaned = count_errors(folder, search.clean, ids)
            erase_dead_letters(folder, ids, fence)
            clean_errors(folder, search.clean, fence)
            places.append(SearchedPlace(PlaceKind.DEAD_LETTERS, flow.name, len(ids), cleaned=cleaned))
            batches = [batch for batch, _ in waiting_batches(flow)]
            rows = sum(erase_spilled_rows(self._session, batch, search.condition, fence) for batch in batches)
            places.append(SearchedPlace(PlaceKind.SPILL_QUEUE, flow.name, rows))
        events = erase_from_events(self._layout.events, search.matches, search.clean, fence)
        return [*places, SearchedPlace(PlaceKind.EVENT_LOG, EVENT_LOG_NAME, events)]

    def _without_old_files(
        self,
        place: SearchedPlace,
        targets: list[Target],
        fence: Callable[[], None],
        kept: list[tuple[str, UnusedFiles]],
    ) -> SearchedPlace:
        """The place after the files of its old versions are deleted, and its log has no values of them.

        Adds to *kept* what stays, with the name of the table.
        """
        removed = 0
        for path, texts in self._tables(place, targets):
            fence()
            is_of_spark = place.kind not in (PlaceKind.EVENT_LOG, PlaceKind.DEAD_LETTERS)
            if is_of_spark and (unused_files(path, time.time()).files or has_v2_checkpoints(path)):
                # Sessions of other processes then need no older checkpoint, which is rewritten below.
                write_checkpoint(self._session, path)
            unused = remove_unused_files(path, time.time())
            kept.append((f"{place.name} ({place.kind.value})", unused))
            removed += len(unused.files)
            remove_old_values(path, texts)
            forget_log(self._session, path)
        return replace(place, old_files=removed)

    def _tables(self, place: SearchedPlace, targets: list[Target]) -> list[tuple[str, tuple[str, ...]]]:
        """The paths of the Delta tables of a place, each with the texts that conditions may have for the values."""
        values = self._request.values
        if place.kind is PlaceKind.EVENT_LOG:
            return [(self._layout.events, values)]
        if place.kind is PlaceKind.DEAD_LETTERS:
            flows = self._search.flows()
            return [(dead_letter_table(flow.file.parent), values) for flow in flows if flow.name == place.name]
        return [
            (t.place.path, texts_in(self._request.criteria, t.state.schema, t.place.prefixes))
            for t in targets
            if (t.place.kind, t.place.name) == (place.kind, place.name)
        ]

    def _record(self, places: list[SearchedPlace]) -> None:
        settings = self._settings
        rows = {f"{place.kind.value} {place.name}": place.rows for place in places if place.rows}
        event = RowsErased(self._request.columns, rows, self._request.keep_files, user_name(self._environ))
        with EventLog(
            settings.layout.events,
            origin=Origin(settings.id, settings.name, str(uuid.uuid4()), host=socket.gethostname()),
            clock=lambda: datetime.now(tz=UTC),
            new_id=lambda: str(uuid.uuid4()),
            redact=self._redact,
        ) as log:
            log.emit(event)
