"""Under which names datasets are published: those of a catalog that the settings name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from headrace.errors import PipelineError
from headrace.graph.resolved import ResolvedDataset
from headrace.model.datasets import Dataset
from headrace.model.names import InvalidName, Naming, QualifiedName, check_in_catalog
from headrace.options.nearest import nearest
from headrace.settings.catalogs import CatalogSettings

Catalogs = Mapping[str, CatalogSettings]


def with_published_names(
    datasets: Iterable[ResolvedDataset], catalogs: Catalogs, naming: Naming
) -> tuple[ResolvedDataset, ...]:
    """The datasets, each with the name under which it is published."""
    return tuple(replace(one, published_as=_published_as(one.dataset, catalogs, naming)) for one in datasets)


def _published_as(dataset: Dataset, catalogs: Catalogs, naming: Naming) -> tuple[str, str, str] | None:
    """Catalog, schema and name under which a dataset is published; None if it is not."""
    catalog_name, schema, name = naming.qualified(dataset.name)
    catalog = catalogs.get((catalog_name or "").casefold())
    if catalog is None or not dataset.kind.stored or dataset.private:
        return None
    if catalog.publish is not None and dataset.name not in set(_listed(catalog, naming)):
        return None
    return catalog.name, schema.lower(), name.lower()


def publication_problems(
    datasets: Mapping[QualifiedName, Dataset], catalogs: Catalogs, naming: Naming
) -> Iterator[PipelineError]:
    """The problems of what the settings publish: names that no dataset has, or that no metastore can have."""
    for catalog in catalogs.values():
        for text in catalog.publish or ():
            reason, fix = _why_not(text, datasets, catalog, naming)
            if reason:
                yield PipelineError(
                    "CATALOG.CANNOT_PUBLISH",
                    location=catalog.location,
                    name=text,
                    catalog=catalog.name,
                    reason=reason,
                    instead=fix,
                )
    for dataset in datasets.values():
        name = _published_as(dataset, catalogs, naming)
        try:
            for part in name or ():
                check_in_catalog(part)
        except InvalidName as invalid:
            fix = "Rename the dataset, or list those to publish in catalogs.*.publish."
            yield PipelineError(
                "CATALOG.CANNOT_PUBLISH",
                location=dataset.location,
                name=dataset.name,
                catalog=name[0] if name else "",
                reason=str(invalid),
                instead=fix,
            )


def _why_not(
    text: str, datasets: Mapping[QualifiedName, Dataset], catalog: CatalogSettings, naming: Naming
) -> tuple[str, str]:
    """Why an entry of ``publish`` cannot be published, and what to do; empty if it can."""
    try:
        name = naming.canonical(text)
    except InvalidName as invalid:
        return str(invalid), "Write the name of a dataset."
    dataset = datasets.get(name)
    if dataset is None:
        close = nearest(text, map(str, datasets))
        return "the pipeline has no such dataset", f'Did you mean "{close}"?' if close else "Remove it from the list."
    if dataset.private:
        return "it is private", "Remove it from the list, or let it be public."
    if not dataset.kind.stored:
        return f"it is a {dataset.kind.label}, which is no table", "Remove it from the list."
    own = naming.qualified(name)[0]
    if (own or "").casefold() != catalog.name.casefold():
        has = f'its catalog is "{own}"' if own else "it is in no catalog"
        return has, f"Set catalog: {catalog.name} for the pipeline, or name the dataset {catalog.name}.SCHEMA.NAME."
    return "", ""


def _listed(catalog: CatalogSettings, naming: Naming) -> Iterator[QualifiedName]:
    for text in catalog.publish or ():
        try:
            yield naming.canonical(text)
        except InvalidName:
            # Reported with the other problems.
            continue
