"""What an update changes in a metastore, so that the entries of the pipeline are as they are wanted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from headrace.catalogs.entry import CatalogEntry, Owner

# Schema and name.
TableName = tuple[str, str]


@dataclass(frozen=True)
class WantedEntry:
    """An entry as it is wanted.

    Attributes:
        entry: the entry.
        former: the name in the same schema under which the dataset may be published, before it was renamed.
    """

    entry: CatalogEntry
    former: str = ""

    @property
    def key(self) -> TableName:
        """Schema and name."""
        return self.entry.schema, self.entry.name


@dataclass(frozen=True)
class EntryChange:
    """A change of one entry.

    Attributes:
        entry: the entry afterwards.
        replaces: the name of the entry that it replaces; empty if it is new.
    """

    entry: CatalogEntry
    replaces: str = ""


def taken(
    wanted: Iterable[WantedEntry], found: Mapping[TableName, CatalogEntry], owner: Owner
) -> Iterator[CatalogEntry]:
    """The entries of others under names that the pipeline wants."""
    for one in wanted:
        entry = found.get(one.key)
        if entry is not None and not entry.belongs_to(owner):
            yield entry


def changes(
    wanted: Iterable[WantedEntry], gone: Iterable[TableName], found: Mapping[TableName, CatalogEntry], owner: Owner
) -> Iterator[EntryChange]:
    """The changes that make the entries of a pipeline as they are wanted; none of another's is touched.

    Law: once they are made, there is nothing to change. A renamed dataset keeps its entry under the new name, unless
    both names have one.

    Args:
        wanted: the entries.
        gone: names under which the pipeline has published datasets that it no longer has.
        found: what the metastore has under all of these names, former ones included.
        owner: the pipeline.
    """
    wanted = tuple(wanted)
    keys = {one.key for one in wanted}
    renamed = {one.key: former for one, former in _renamed(wanted, found, owner)}
    moved = {(former.schema, former.name) for former in renamed.values()}
    # Renames come first: they free names.
    for one in wanted:
        if one.key in renamed:
            former = renamed[one.key]
            yield EntryChange(former.updated(one.entry), former.name)
    for one in wanted:
        if one.key in renamed:
            continue
        known = None if one.key in moved else found.get(one.key)
        if known is None:
            yield EntryChange(one.entry)
        elif known.belongs_to(owner) and (change := known.updated(one.entry)) != known:
            yield EntryChange(change, known.name)
    for key in gone:
        known = found.get(key)
        if known is None or key in keys or key in moved:
            continue
        if known.belongs_to(owner) and not known.is_removed:
            yield EntryChange(known.removed(), known.name)


def _renamed(
    wanted: Iterable[WantedEntry], found: Mapping[TableName, CatalogEntry], owner: Owner
) -> Iterator[tuple[WantedEntry, CatalogEntry]]:
    for one in wanted:
        former = found.get((one.entry.schema, one.former)) if one.former else None
        if former is not None and one.key not in found and former.belongs_to(owner) and one.former != one.entry.name:
            yield one, former
