"""Searches every place of a storage for the rows of an erasure; writes nothing."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import Column, SparkSession

from headrace.delta_log.erased_values import UnusedFiles, contains, log_mentions, unused_files, without_texts
from headrace.delta_log.tables import TableState, table_exists, table_state
from headrace.errors import PipelineError
from headrace.events.erased_texts import count_events
from headrace.model.erasure import (
    Erasure,
    ErasureRequest,
    KeptFiles,
    NotComparable,
    PlaceKind,
    SearchedPlace,
    matches_text,
)
from headrace.model.names import InvalidName, QualifiedName
from headrace.model.schema import Schema
from headrace.options.nearest import did_you_mean
from headrace.project.erasure.rows_elsewhere import rows_elsewhere
from headrace.settings.settings import Settings
from headrace.settings.storage import MonitoringFile
from headrace.spark.delta.erase_conditions import condition_of
from headrace.spark.delta.erase_rows import find_rows
from headrace.spark.sinks.spilled_rows import find_spilled_rows
from headrace.storage.adopted_tables import AdoptedTables, Consent, needs_consent
from headrace.storage.dead_letter_tables import dead_letter_table
from headrace.storage.dead_letters import count_errors, matching_dead_letters
from headrace.storage.erasable import (
    DeltaPlace,
    computed_from,
    delta_places,
    open_flows,
    stateful_flows,
    waiting_batches,
)
from headrace.storage.inventory import StoredFlow, stored_flows
from headrace.stores.paths import StoragePath, readable_file, sorted_paths, storage_path

EVENT_LOG_NAME = "events"


@dataclass(frozen=True)
class Target:
    """A Delta table to erase from, and the condition for its rows."""

    place: DeltaPlace
    state: TableState
    condition: Column

    @property
    def names(self) -> tuple[str, ...]:
        """The names under which queries read the table; none if they cannot."""
        place = self.place
        return () if place.table is None else (place.table, place.path)


class Search:
    """The places of a storage, searched for the rows of a request.

    Raises:
        PipelineError: ERASE.UNKNOWN.
    """

    def __init__(self, settings: Settings, session: SparkSession, request: ErasureRequest) -> None:
        self.layout, self.naming = settings.layout, settings.naming
        self.session = session
        self.request = request
        self._datasets = self._selected()

    def find(self) -> Erasure:
        """What an erasure would find, and what would stop it.

        Raises:
            PipelineError: ERASE.NO_COLUMN.
        """
        targets, not_searched = self.targets()
        places, kept = [], []
        for target in targets:
            found = find_rows(self.session, target.place.path, target.condition)
            old = unused_files(target.place.path, time.time())
            kept.append((f"{target.place.name} ({target.place.kind.value})", old))
            places.append(SearchedPlace(target.place.kind, target.place.name, found.rows, found.files, len(old.files)))
        for flow in self.flows():
            ids = matching_dead_letters(flow.file.parent, self.matches)
            cleaned = count_errors(flow.file.parent, self.clean, ids)
            places.append(SearchedPlace(PlaceKind.DEAD_LETTERS, flow.name, len(ids), cleaned=cleaned))
            spilled = (find_spilled_rows(self.session, batch, self.condition) for batch, _ in waiting_batches(flow))
            rows = sum(sum(files.values()) for files in spilled)
            places.append(SearchedPlace(PlaceKind.SPILL_QUEUE, flow.name, rows))
        events = count_events(self.layout.events, self.matches, self.clean)
        places.append(SearchedPlace(PlaceKind.EVENT_LOG, EVENT_LOG_NAME, events))
        self.check_found(targets, places)
        with_rows = {(place.kind, place.name) for place in places if place.rows}
        names = [name for t in targets if (t.place.kind, t.place.name) in with_rows for name in t.names]
        computed = dict.fromkeys(str(flow.dataset) for flow in computed_from(self.layout, self.naming, names))
        report = self.report(places, not_searched, tuple(computed))
        return replace(report, blocked=tuple(self.blocked(targets)), old_files=kept_files(kept))

    def report(
        self, places: list[SearchedPlace], not_searched: list[tuple[str, str]], recomputed: tuple[str, ...]
    ) -> Erasure:
        """What was found, as an erasure that is not done."""
        return Erasure(
            self.request.columns,
            is_done=False,
            keeps_files=False,
            places=tuple(places),
            not_searched=tuple(not_searched),
            recomputed=recomputed,
            state=stateful_flows(self.layout, self.naming),
        )

    def targets(self) -> tuple[list[Target], list[tuple[str, str]]]:
        """The tables that can be searched, and the names of the others, each with the reason."""
        found, others = [], []
        for place in delta_places(self.layout, self.naming):
            state = table_state(place.path)
            if state is None or not self._is_selected(place.dataset):
                continue
            reason = needs_consent(AdoptedTables(self.layout).at(place.path), Consent.ERASE)
            if reason:
                others.append((place.name, reason))
                continue
            try:
                condition = condition_of(self.request.criteria, state.schema, place.prefixes)
                found.append(Target(place, state, condition))
            except NotComparable as error:
                label = place.name if place.kind is PlaceKind.TABLE else f"{place.name} ({place.kind.value})"
                others.append((label, str(error)))
        others += rows_elsewhere(self.layout)
        return found, others

    def check_found(self, targets: list[Target], places: Iterable[SearchedPlace]) -> None:
        """Check that the columns exist anywhere: in a table, or in a row of another place.

        Raises:
            PipelineError: ERASE.NO_COLUMN.
        """
        if targets or any(place.rows or place.cleaned for place in places):
            return
        # After a crash, only old files may be left.
        letters = (dead_letter_table(flow.file.parent) for flow in self.flows())
        if not any(table_exists(path) and unused_files(path, time.time()).files for path in letters):
            raise PipelineError("ERASE.NO_COLUMN", columns=", ".join(self.request.columns))

    def flows(self) -> Iterator[StoredFlow]:
        """The flows of the selected datasets."""
        return (flow for flow in stored_flows(self.layout, self.naming) if self._is_selected(flow.dataset))

    def condition(self, schema: Schema) -> Column:
        """The condition for the rows of a batch with these columns."""
        return condition_of(self.request.criteria, schema)

    def matches(self, text: str) -> bool:
        """Whether a stored record is a row to erase."""
        return matches_text(text, self.request.criteria, contains)

    def clean(self, text: str) -> str:
        """A text without the values."""
        return without_texts(text, self.request.texts)

    def blocked(self, targets: list[Target]) -> Iterator[str]:
        """Why rows of these tables cannot be erased now."""
        tables = {name: target.state for target in targets if (name := target.place.table) is not None}
        for flow in open_flows(self.layout, self.naming, tables):
            yield f'flow "{flow.name}": {flow.reason}'

    def mentions(self, targets: list[Target]) -> Iterator[str]:
        """Files that contain a value, and that an erasure does not change."""
        texts = self.request.texts
        columns = {criterion.column[0].casefold() for criterion in self.request.criteria}
        for target in targets:
            is_partitioned = columns & {name.casefold() for name in target.state.partition_by}
            if is_partitioned or log_mentions(target.place.path, texts):
                yield f"{target.place.path}/_delta_log"
        if not texts:
            return
        files: list[StoragePath] = [*Path(self.layout.logs).glob("*"), *storage_path(self.layout.views).rglob("*.json")]
        for path in (storage_path(self.layout.monitoring(file)) for file in MonitoringFile):
            # Some are folders.
            files += [path, *path.rglob("*")]
        for file in sorted_paths(files):
            if file.is_file() and contains(_text_of(file), texts):
                yield str(file)

    def _selected(self) -> frozenset[QualifiedName] | None:
        """The datasets of the request; None for all."""
        known = {place.dataset for place in delta_places(self.layout, self.naming)}
        known |= {flow.dataset for flow in stored_flows(self.layout, self.naming)}
        found = set()
        for text in self.request.datasets:
            try:
                name = self.naming.canonical(text)
            except InvalidName:
                name = QualifiedName(text)
            if name not in known:
                suggestion = did_you_mean(text, sorted(map(str, known)))
                raise PipelineError("ERASE.UNKNOWN", name=text, suggestion=suggestion)
            found.add(name)
        return frozenset(found) if found else None

    def _is_selected(self, dataset: QualifiedName) -> bool:
        return self._datasets is None or dataset in self._datasets


def kept_files(tables: Iterable[tuple[str, UnusedFiles]]) -> KeptFiles:
    """What an erasure leaves of the unused files of some tables, which have names."""
    found = tuple(tables)
    last_s = max((unused.unnamed_until_s for _, unused in found), default=0.0)
    # Rounded up to a whole day.
    last = datetime.fromtimestamp(last_s, UTC) + timedelta(days=1) if last_s else None
    return KeptFiles(
        sum(unused.unnamed for _, unused in found),
        "" if last is None else last.strftime("%Y-%m-%d"),
        tuple((name, unused.kept_for) for name, unused in found if unused.kept_for),
    )


def _text_of(file: StoragePath) -> str:
    """The text of a file; of a Parquet file, its rows."""
    if file.suffix == ".parquet":
        return str(pq.read_table(readable_file(file)).to_pylist())
    return file.read_bytes().decode("utf-8", errors="replace")
