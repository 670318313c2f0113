"""Publishes the tables of a pipeline in the metastores of its settings, under the lease of its updates.

A metastore is asked three times in an update. Before anything is written, a name that somebody else has stops the
update. Under the lease, names that are free are taken: of two pipelines, one gets a name. When the flows have ended,
entries get what the logs of the tables say. A metastore that cannot be reached stops nothing: the rows of an update do
not depend on it, and the next update repairs the entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace

from headrace.catalogs.changes import TableName, WantedEntry, changes, taken
from headrace.catalogs.client import MetastoreClient
from headrace.catalogs.entry import CatalogEntry, Owner, TableFacts, entry_of
from headrace.catalogs.record import (
    Publication,
    PublicationRecord,
    PublicationState,
    read_publications,
    write_publications,
)
from headrace.delta_log.tables import TableState, table_state
from headrace.errors import PipelineError, raise_all
from headrace.graph.resolved import ResolvedDataset, ResolvedGraph
from headrace.model.names import InvalidName
from headrace.plan.steps import Plan
from headrace.settings.catalogs import CatalogSettings
from headrace.settings.settings import Settings
from headrace.storage.listed_storage import reading_storage
from headrace.stores.uris import is_store_uri

# Opens a connection to the metastore of a catalog.
Connect = Callable[[CatalogSettings], MetastoreClient]


class _NotAskedError(Exception):
    """A metastore did not do what it was asked."""


@dataclass
class PipelinePublication:
    """The publication of the tables of one pipeline.

    Attributes:
        settings: the pipeline's.
        connect: opens a connection to a metastore.
        redact: removes secrets from a text.
        spark_version: of the Spark that writes the tables.
        problems: by catalog, why it was not reached, or did not do what it was asked, last time.
    """

    settings: Settings
    connect: Connect
    redact: Callable[[str], str]
    spark_version: str
    problems: dict[str, PipelineError] = field(default_factory=dict)

    def check(self, plan: Plan) -> None:
        """Check that the names are free, or the pipeline's own; metastores that cannot be reached are passed over.

        Raises:
            Problems: CATALOG.TABLE_TAKEN, for each name that somebody else has.
        """
        found: list[PipelineError] = []
        for catalog, datasets in self._published(plan.graph):
            wanted = [self._declared(dataset) for dataset in datasets]
            if not wanted:
                continue
            with suppress(_NotAskedError), self._connected(catalog) as client:
                entries = self._found(client, wanted, ())
                found += [self._taken(catalog, entry) for entry in taken(wanted, entries, self._owner)]
        raise_all(found)

    def claim(self, plan: Plan) -> None:
        """Take the names of the tables that an update fills, and give entries what it will change in their tables.

        Call it under the lease, before the update writes anything.

        Raises:
            Problems: CATALOG.TABLE_TAKEN, for each name that somebody else has.
        """
        filled = {step.flow.target for step in plan.flows if step.has_work}
        found: list[PipelineError] = []
        for catalog, datasets in self._published(plan.graph):
            wanted = [self._planned(plan, one, filled=one.name in filled) for one in datasets]
            others, _ = self._apply(catalog, [one for one in wanted if one is not None], ())
            found += others
        raise_all(found)

    def publish(self, plan: Plan) -> tuple[PipelineError, ...]:
        """Give entries what the logs of the tables say, and mark those of datasets that the pipeline no longer has.

        Call it under the lease.

        Returns:
            What could not be done; the next call does it.
        """
        before = read_publications(self.settings.layout)
        publications: list[Publication] = []
        problems: list[PipelineError] = []
        with reading_storage(self.settings.layout):
            asked = [
                (catalog, datasets, [entry for one in datasets if (entry := self._stored(one)) is not None])
                for catalog, datasets in self._published(plan.graph)
            ]
        for catalog, datasets, wanted in asked:
            kept, gone = _older(before.of_catalog(catalog.name), wanted, datasets, plan.graph)
            others, found = self._apply(catalog, wanted, [(one.schema, one.table) for one in gone])
            failed = self.problems.get(catalog.name)
            pending = {problem.params["table"] for problem in others}
            for one in wanted:
                is_pending = failed is not None or one.entry.table in pending
                state = PublicationState.PENDING if is_pending else PublicationState.PUBLISHED
                publications.append(Publication(catalog.name, *one.key, one.entry.dataset, state))
            # An entry that somebody has dropped, or replaced, is no longer the pipeline's.
            left = [one for one in gone if failed is not None or self._is_own(found.get((one.schema, one.table)))]
            publications += [*kept, *(replace(one, state=PublicationState.REMOVED) for one in left)]
            problems += others if failed is None else [*others, failed]
        if publications or before.publications:
            texts = {problem.params["catalog"]: problem.message for problem in problems}
            with suppress(OSError):
                write_publications(self.settings.layout, PublicationRecord(tuple(publications), texts))
        return tuple(problems)

    def _apply(
        self, catalog: CatalogSettings, wanted: Iterable[WantedEntry], gone: Iterable[TableName]
    ) -> tuple[list[PipelineError], Mapping[TableName, CatalogEntry]]:
        """Make the entries as they are wanted; returns a problem for each name of others, and what was there before."""
        wanted, gone = tuple(wanted), tuple(gone)
        self.problems.pop(catalog.name, None)
        problems: list[PipelineError] = []
        found: dict[TableName, CatalogEntry] = {}
        if not wanted and not gone:
            return problems, found
        with suppress(_NotAskedError), self._connected(catalog) as client:
            found = self._found(client, wanted, gone)
            problems += [self._taken(catalog, entry) for entry in taken(wanted, found, self._owner)]
            for change in changes(wanted, gone, found, self._owner):
                if change.replaces:
                    client.replace(change.replaces, change.entry)
                elif not client.create(change.entry):
                    # Somebody has been faster.
                    now = client.find(change.entry.schema, [change.entry.name])
                    problems += [self._taken(catalog, entry) for entry in now.values()]
        return problems, found

    @contextmanager
    def _connected(self, catalog: CatalogSettings) -> Iterator[MetastoreClient]:
        """A connection for the block.

        Raises:
            _NotAskedError: the metastore did not do something, which is now a problem of the catalog.
        """
        self.problems.pop(catalog.name, None)
        try:
            with closing(self.connect(catalog)) as client:
                yield client
        except PipelineError as error:
            params = {key: self.redact(value) for key, value in error.params.items()}
            self.problems[catalog.name] = PipelineError(error.code, location=catalog.location, **params)
            raise _NotAskedError from error

    def _found(
        self, client: MetastoreClient, wanted: Iterable[WantedEntry], gone: Iterable[TableName]
    ) -> dict[TableName, CatalogEntry]:
        names: dict[str, set[str]] = {}
        for schema, name in (*(one.key for one in wanted), *gone):
            names.setdefault(schema, set()).add(name)
        for one in wanted:
            if one.former:
                names[one.entry.schema].add(one.former)
        return {
            (schema, name): entry
            for schema, asked in names.items()
            for name, entry in client.find(schema, sorted(asked)).items()
        }

    def _taken(self, catalog: CatalogSettings, entry: CatalogEntry) -> PipelineError:
        publisher = self.redact(entry.publisher) or "no pipeline"
        return PipelineError(
            "CATALOG.TABLE_TAKEN",
            location=catalog.location,
            catalog=catalog.name,
            table=entry.table,
            publisher=publisher,
            storage=self.settings.storage,
        )

    def _published(self, graph: ResolvedGraph) -> Iterator[tuple[CatalogSettings, list[ResolvedDataset]]]:
        """The catalogs of the settings, each with the datasets that are published there."""
        for catalog in self.settings.catalogs.values():
            yield catalog, [one for one in graph.datasets if one.published_as and one.published_as[0] == catalog.name]

    def _declared(self, dataset: ResolvedDataset) -> WantedEntry:
        """The entry of a dataset, by its declaration."""
        declared = dataset.dataset
        return self._wanted(dataset, dataset.schema.to_json(), declared.comment, declared.properties)

    def _planned(self, plan: Plan, dataset: ResolvedDataset, *, filled: bool) -> WantedEntry | None:
        """The entry of a dataset as a plan leaves its table; None if there is no table, and no flow fills it."""
        state = _readable_state(dataset.path)
        if state is None:
            return self._declared(dataset) if filled else None
        if plan.table_step_for(dataset.name) is None:
            return self._stored(dataset)
        properties = {**state.properties, **dataset.dataset.properties}
        return self._wanted(dataset, dataset.schema.to_json(), dataset.dataset.comment, properties)

    def _is_own(self, entry: CatalogEntry | None) -> bool:
        return entry is not None and entry.belongs_to(self._owner)

    def _stored(self, dataset: ResolvedDataset) -> WantedEntry | None:
        """The entry of a dataset, by its table; None without one."""
        state = _readable_state(dataset.path)
        return None if state is None else self._wanted(dataset, state.schema.to_json(), state.comment, state.properties)

    def _wanted(
        self, dataset: ResolvedDataset, schema_json: str, comment: str | None, properties: Mapping[str, str]
    ) -> WantedEntry:
        facts = TableFacts(
            str(dataset.name),
            dataset.kind,
            _spelled(dataset.path or ""),
            self.redact(schema_json),
            self.redact(comment or ""),
            {key: self.redact(value) for key, value in properties.items()},
        )
        _, schema, name = dataset.published_as or ("", "", "")
        entry = entry_of(facts, schema, name, self._owner, self.spark_version)
        return WantedEntry(entry, self._former(dataset))

    def _former(self, dataset: ResolvedDataset) -> str:
        """The name of a renamed dataset before, in the same schema; empty for none."""
        naming = self.settings.naming
        for old, new in self.settings.renamed_datasets.items():
            with suppress(InvalidName):
                before, after = naming.canonical(old), naming.canonical(new)
                if after == dataset.name and naming.qualified(before)[:2] == naming.qualified(after)[:2]:
                    return before.name.lower()
        return ""

    @property
    def _owner(self) -> Owner:
        return Owner(self.settings.id, self.settings.name, self.settings.storage)


def _older(
    before: Iterable[Publication],
    wanted: Iterable[WantedEntry],
    datasets: Iterable[ResolvedDataset],
    graph: ResolvedGraph,
) -> tuple[list[Publication], list[Publication]]:
    """Publications that are not wanted now: those of datasets that have no table now, and those that are gone."""
    keys = {one.key for one in wanted} | {(one.entry.schema, one.former) for one in wanted if one.former}
    stored = {one.entry.dataset for one in wanted}
    waiting = {str(one.name) for one in datasets if str(one.name) not in stored}
    waiting |= {str(name) for name in graph.unavailable_datasets}
    old = [one for one in before if (one.schema, one.table) not in keys]
    kept = [one for one in old if one.dataset in waiting and one.state is not PublicationState.REMOVED]
    return kept, [one for one in old if one not in kept]


def _readable_state(path: str | None) -> TableState | None:
    """The state of a table; None without one, and if it cannot be read, which its own flows report."""
    try:
        return None if path is None else table_state(path)
    except PipelineError:
        return None


def _spelled(path: str) -> str:
    """The path of a table, as Spark spells it in a metastore."""
    return path if is_store_uri(path) else f"file:{path}"
