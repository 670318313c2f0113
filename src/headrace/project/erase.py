"""Erases a person's rows from the storage of a pipeline, under its lease.

The steps are in an order in which a crash at any of them is safe: views are marked to be recomputed before rows go, and
files are deleted from every place that was searched, not only from those in which rows were found this time. So running
it again finishes it.
"""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column

from headrace.delta_log.erased_values import (
    contains,
    log_mentions,
    remove_old_values,
    remove_unused_files,
    unused_files,
    without_texts,
)
from headrace.delta_log.tables import TableState, table_state
from headrace.errors import PipelineError
from headrace.events.envelope import Origin
from headrace.events.erased_texts import count_events, erase_from_events
from headrace.events.log import EventLog
from headrace.events.types import RowsErased
from headrace.graph.build import did_you_mean
from headrace.model.erasure import Erasure, ErasureRequest, NotComparable, PlaceKind, SearchedPlace, matches_text
from headrace.model.names import InvalidName, QualifiedName
from headrace.model.schema import Schema
from headrace.project.lease import Lease
from headrace.project.lease_holders import host_name, user_name
from headrace.settings.settings import Settings
from headrace.settings.storage import MonitoringFile
from headrace.spark.delta.erase_conditions import condition_of
from headrace.spark.delta.erase_rows import erase_rows, find_rows, forget_log, write_checkpoint
from headrace.spark.delta.transaction import is_supported
from headrace.spark.errors.spark_errors import innermost
from headrace.spark.jvm.causes import chain
from headrace.spark.sinks.spilled_rows import erase_spilled_rows, find_spilled_rows
from headrace.spark.update.catalog import Catalog
from headrace.storage.dead_letters import dead_letter_table, erase_dead_letters, matching_dead_letters
from headrace.storage.erasable import (
    DeltaPlace,
    computed_from,
    delta_places,
    open_flows,
    recompute_later,
    stateful_flows,
    waiting_batches,
)
from headrace.storage.inventory import StoredFlow, stored_flows


@dataclass(frozen=True)
class _Target:
    """A Delta table to erase from, and the condition for its rows."""

    place: DeltaPlace
    state: TableState
    condition: Column


class Eraser:
    """Finds and erases rows of one request.

    Args:
        settings: the pipeline's.
        environ: the process environment.
        catalog: the session's catalog.
        redact: removes secrets from a text.
        request: which rows.

    Raises:
        PipelineError: ERASE.UNKNOWN, ERASE.NO_COLUMN, ERASE.DELTA_VERSION.
    """

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        catalog: Catalog,
        redact: Callable[[str], str],
        request: ErasureRequest,
    ) -> None:
        self._settings = settings
        self._environ = environ
        self._session = catalog.session
        self._redact = redact
        self._request = request
        self._layout, self._naming = settings.layout, settings.naming
        if not is_supported(self._session):
            raise PipelineError("ERASE.DELTA_VERSION")
        self._datasets = self._selected()

    def find(self) -> Erasure:
        """What :meth:`erase` would find; writes nothing."""
        targets, not_searched = self._targets()
        places = []
        for target in targets:
            found = find_rows(self._session, target.place.path, target.condition)
            old, _ = unused_files(target.place.path, time.time())
            places.append(SearchedPlace(target.place.kind, target.place.name, found.rows, found.files, len(old)))
        for flow in self._flows():
            ids = matching_dead_letters(flow.file.parent, self._matches)
            places += _place(PlaceKind.DEAD_LETTERS, flow.name, len(ids))
            spilled = (find_spilled_rows(self._session, batch, self._condition) for batch, _ in waiting_batches(flow))
            places += _place(PlaceKind.SPILL_QUEUE, flow.name, sum(sum(files.values()) for files in spilled))
        places += _place(PlaceKind.EVENT_LOG, "events", count_events(self._layout.events, self._matches, self._clean))
        with_rows = {(place.kind, place.name) for place in places if place.rows}
        names = [name for t in targets if (t.place.kind, t.place.name) in with_rows for name in _names(t.place)]
        computed = computed_from(self._layout, self._naming, names)
        report = self._report(places, not_searched, tuple(dict.fromkeys(str(flow.dataset) for flow in computed)))
        return replace(report, blocked=tuple(self._blocked(targets)))

    def erase(self) -> Erasure:
        """Erase the rows.

        Raises:
            PipelineError: ERASE.UNREAD, ERASE.WAITING, LEASE.HELD; nothing was written.
        """
        with Lease(Path(self._layout.lease), host_name(self._environ), time.time) as lease:
            targets, not_searched = self._targets()
            self._check(targets)
            places, recomputed = self._erase_tables(targets, lease.check)
            places += self._erase_other_rows(lease.check)
            if not self._request.keep_files:
                places = [self._without_old_files(place, targets, lease.check) for place in places]
            self._record(places)
            erased = self._report(places, not_searched, recomputed)
            mentions = tuple(self._mentions(targets))
            return replace(erased, is_done=True, keeps_files=self._request.keep_files, mentions=mentions)

    def _selected(self) -> frozenset[QualifiedName] | None:
        """The datasets of the request; None for all."""
        known = {place.dataset for place in delta_places(self._layout, self._naming)}
        known |= {flow.dataset for flow in stored_flows(self._layout, self._naming)}
        found = set()
        for text in self._request.datasets:
            try:
                name = self._naming.canonical(text)
            except InvalidName:
                name = QualifiedName(text)
            if name not in known:
                suggestion = did_you_mean(text, sorted(map(str, known)))
                raise PipelineError("ERASE.UNKNOWN", name=text, suggestion=suggestion)
            found.add(name)
        return frozenset(found) if found else None

    def _is_selected(self, dataset: QualifiedName) -> bool:
        return self._datasets is None or dataset in self._datasets

    def _flows(self) -> Iterator[StoredFlow]:
        return (flow for flow in stored_flows(self._layout, self._naming) if self._is_selected(flow.dataset))

    def _targets(self) -> tuple[list[_Target], list[tuple[str, str]]]:
        """The tables that can be searched, and the names of the others, each with the reason."""
        found, others = [], []
        for place in delta_places(self._layout, self._naming):
            state = table_state(place.path)
            if state is None or not self._is_selected(place.dataset):
                continue
            try:
                condition = condition_of(self._request.criteria, state.schema, place.prefixes)
                found.append(_Target(place, state, condition))
            except NotComparable as reason:
                label = place.name if place.kind is PlaceKind.TABLE else f"{place.name} ({place.kind.value})"
                others.append((label, str(reason)))
        if not found:
            raise PipelineError("ERASE.NO_COLUMN", columns=", ".join(self._request.columns))
        return found, others

    def _condition(self, schema: Schema) -> Column:
        return condition_of(self._request.criteria, schema)

    def _matches(self, text: str) -> bool:
        return matches_text(text, self._request.criteria, contains)

    def _clean(self, text: str) -> str:
        return without_texts(text, self._request.texts)

    def _blocked(self, targets: list[_Target]) -> Iterator[str]:
        tables = {name: target.state for target in targets if (name := target.place.table) is not None}
        for flow in open_flows(self._layout, self._naming, tables):
            yield f'flow "{flow.name}": {flow.reason}'

    def _check(self, targets: list[_Target]) -> None:
        blocked = list(self._blocked(targets))
        if blocked:
            raise PipelineError("ERASE.UNREAD", reasons=";\n".join(blocked))
        for flow in self._flows():
            for batch, may_be_sent in waiting_batches(flow):
                if may_be_sent and find_spilled_rows(self._session, batch, self._condition):
                    raise PipelineError("ERASE.WAITING", flow=flow.name, batch=batch.number)

    def _erase_tables(
        self, targets: list[_Target], fence: Callable[[], None]
    ) -> tuple[list[SearchedPlace], tuple[str, ...]]:
        recomputed: dict[str, None] = {}
        places = []
        for target in targets:
            place, path = target.place, target.place.path
            names = _names(place)
            if (
                computed_from(self._layout, self._naming, names)
                and find_rows(self._session, path, target.condition).rows
            ):
                fence()
                recomputed |= dict.fromkeys(recompute_later(self._layout, self._naming, names))
            found = erase_rows(self._session, path, target.condition, fence)
            places.append(SearchedPlace(place.kind, place.name, found.rows, found.files))
        return places, tuple(recomputed)

    def _erase_other_rows(self, fence: Callable[[], None]) -> list[SearchedPlace]:
        places = []
        for flow in self._flows():
            ids = matching_dead_letters(flow.file.parent, self._matches)
            erase_dead_letters(flow.file.parent, ids, fence)
            places += _place(PlaceKind.DEAD_LETTERS, flow.name, len(ids))
            batches = [batch for batch, _ in waiting_batches(flow)]
            rows = sum(erase_spilled_rows(self._session, batch, self._condition, fence) for batch in batches)
            places += _place(PlaceKind.SPILL_QUEUE, flow.name, rows)
        events = erase_from_events(self._layout.events, self._matches, self._clean, fence)
        return [*places, *_place(PlaceKind.EVENT_LOG, "events", events)]

    def _without_old_files(
        self, place: SearchedPlace, targets: list[_Target], fence: Callable[[], None]
    ) -> SearchedPlace:
        """The place after the files of its old versions are deleted, and its log has no values of them."""
        paths = [t.place.path for t in targets if (t.place.kind, t.place.name) == (place.kind, place.name)]
        if place.kind is PlaceKind.EVENT_LOG:
            paths = [self._layout.events]
        if place.kind is PlaceKind.DEAD_LETTERS:
            paths = [dead_letter_table(flow.file.parent) for flow in self._flows() if flow.name == place.name]
        removed = 0
        for path in paths:
            fence()
            if place.rows and place.kind not in (PlaceKind.EVENT_LOG, PlaceKind.DEAD_LETTERS):
                write_checkpoint(self._session, path)
            removed += remove_unused_files(path, time.time()).files
            remove_old_values(path, self._request.texts)
            forget_log(self._session, path)
        return replace(place, old_files=removed)

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
            retain_s=settings.event_log_retain_s,
        ) as log:
            log.emit(event)

    def _report(
        self, places: list[SearchedPlace], not_searched: list[tuple[str, str]], recomputed: tuple[str, ...]
    ) -> Erasure:
        return Erasure(
            self._request.columns,
            is_done=False,
            keeps_files=False,
            places=tuple(places),
            not_searched=tuple(not_searched),
            recomputed=recomputed,
            state=stateful_flows(self._layout, self._naming),
        )

    def _mentions(self, targets: list[_Target]) -> Iterator[str]:
        """Files that contain a value and that are not changed."""
        texts = self._request.texts
        if not texts:
            return
        yield from (f"{t.place.path}/_delta_log" for t in targets if log_mentions(t.place.path, texts))
        files = [*Path(self._layout.logs).glob("*"), *Path(self._layout.views).rglob("*.json")]
        files += [Path(self._layout.monitoring(file)) for file in MonitoringFile]
        for file in sorted(files):
            if file.is_file() and contains(file.read_text(encoding="utf-8", errors="replace"), texts):
                yield str(file)


def erased(work: Callable[[], Erasure], request: ErasureRequest) -> Erasure:
    """The result of *work*; errors of Spark become an error without the values.

    Raises:
        PipelineError: ERASE.FAILED, and the errors of *work*.
    """
    try:
        return work()
    except (PySparkException, Py4JJavaError) as error:
        message = str(error) if isinstance(error, PySparkException) else innermost(tuple(chain(error))).message
        reason = without_texts(message.strip().splitlines()[0], request.texts)
        raise PipelineError("ERASE.FAILED", reason=reason) from None


def _place(kind: PlaceKind, name: str, rows: int) -> list[SearchedPlace]:
    return [SearchedPlace(kind, name, rows)]


def _names(place: DeltaPlace) -> tuple[str, ...]:
    """The names under which queries read a table; none if they cannot."""
    return () if place.table is None else (place.table, place.path)
