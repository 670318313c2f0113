"""What a restore must not do: take back a table that was adopted without consent, or one that has left the pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headrace.errors import PipelineError
from headrace.model.names import Naming
from headrace.settings.storage import StorageLayout
from headrace.storage.adopted_tables import AdoptedTables, Consent, Handover


def adoption_problems(
    layout: StorageLayout, naming: Naming, datasets: Iterable[str], savepoint: str
) -> Iterator[PipelineError]:
    """Why the tables of datasets that a restore changes, or starts over, must stay as they are.

    Args:
        layout: the paths in the storage.
        naming: resolves names to qualified ones.
        datasets: of the tables.
        savepoint: its id.
    """
    records = AdoptedTables(layout)
    for dataset in dict.fromkeys(datasets):
        record = records.of(dataset, layout.table(naming, naming.canonical(dataset)))
        if record is None:
            continue
        if record.state is not Handover.ADOPTED:
            yield PipelineError("RELEASE.NOT_RESTORED", name=dataset, folder=record.location, savepoint=savepoint)
        elif not record.allows(Consent.CLEAR):
            what = f"the restore of savepoint {savepoint}"
            yield PipelineError(
                "ADOPT.NEEDS_CONSENT", name=dataset, folder=record.location, what=what, consent=Consent.CLEAR.value
            )
