"""The settings of a pipeline as one value, with all defaults applied and no secrets in its repr."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from headrace.errors import PipelineError, raise_all
from headrace.model.change_classes import ApprovalPolicy
from headrace.model.dead_letter_policy import NO_DEAD_LETTERS, DeadLetterPolicy
from headrace.model.location import Location
from headrace.model.maintenance import DEFAULT_POLICY, MaintenancePolicy
from headrace.model.names import Naming, QualifiedName
from headrace.model.savepoint_policy import NO_SAVEPOINTS, SavepointPolicy
from headrace.model.sequence_conflicts import OnTie
from headrace.model.tombstone_retention import DEFAULT_RETENTION, Retention
from headrace.schedules.definition import Schedule
from headrace.settings.alert_settings import AlertSettings
from headrace.settings.catalogs import CatalogSettings
from headrace.settings.keyring import from_keyring
from headrace.settings.lineage_settings import LineageSettings
from headrace.settings.secrets import DIRECTORY_VARIABLE, Secrets, resolve
from headrace.settings.staged_layout import StagedLayout
from headrace.settings.storage import StorageLayout
from headrace.settings.stores import StoreSettings
from headrace.stores.uris import HDFS, S3, StoreUri, is_store_uri

DEFAULT_SCHEMA = "default"
DEFAULT_STORAGE = "storage"
# The connector of a storage, by its scheme.
CONNECTORS = {S3: "s3", HDFS: "hdfs"}
DEFAULT_PARALLEL_FLOWS = 4
# For the event log; see ADR 21.
DEFAULT_RETAIN_S = 400 * 86_400.0
DEFAULT_RETAIN_METRICS_S = 30 * 86_400.0
# pipelines.maxFlowRetryAttempts of lakeflow.md 1.7.
DEFAULT_FLOW_RETRIES = 2
# pipelines.numUpdateRetryAttempts, for triggered updates.
DEFAULT_UPDATE_RETRIES = 5
DEFAULT_STOP_TIMEOUT_S = 10


def _no_texts() -> Mapping[str, str]:
    return MappingProxyType({})


@dataclass(frozen=True)
class Library:
    """One item of ``libraries``: a file, with ``pattern`` a file or ``folder/**``, or a ``notebook``.

    The extension of a notebook is optional.
    """

    path: str
    pattern: bool
    location: Location
    notebook: bool = False


@dataclass(frozen=True)
class Settings:
    """The settings of a file, with its profile and the command line's overrides applied.

    ``configuration`` and ``spark_conf`` keep their ``${...}`` references; ``resolved_configuration`` and
    ``resolved_spark_conf`` replace them. ``root`` is the folder of the file; the pipeline's files can import the
    modules of ``root_path``. An empty ``libraries`` means ``transformations/**``.
    """

    file: Path
    root: Path
    name: str
    id: str
    storage: str
    root_path: Path
    catalog: str | None = None
    schema: str = DEFAULT_SCHEMA
    continuous: bool = False
    # pipelines.trigger.interval of the configuration; None uses the default of each kind of flow.
    trigger_interval_s: float | None = None
    # Defaults for tables that do not set their own.
    retention: Retention = DEFAULT_RETENTION
    on_tie: OnTie = OnTie.RESOLVE
    # Default for flows that do not set their own.
    on_failing_rows: DeadLetterPolicy = NO_DEAD_LETTERS
    # How long a running batch may take to finish when the update is stopped.
    stop_timeout_s: int = DEFAULT_STOP_TIMEOUT_S
    development: bool = False
    # Never printed: users may write a password instead of a reference.
    configuration: Mapping[str, str] = field(default_factory=_no_texts, repr=False)
    spark_conf: Mapping[str, str] = field(default_factory=_no_texts, repr=False)
    # Values of :name in SQL; never printed either.
    parameters: Mapping[str, str] = field(default_factory=_no_texts, repr=False)
    libraries: tuple[Library, ...] = ()
    # Lines of environment.dependencies, in the syntax of ``pip install``.
    dependencies: tuple[tuple[str, Location], ...] = ()
    # Another name for the event log in ``headrace sql``.
    event_log: QualifiedName | None = None
    maintenance: MaintenancePolicy = DEFAULT_POLICY
    savepoints: SavepointPolicy = NO_SAVEPOINTS
    # How long events, and those of the level METRICS, are kept, in seconds; None for forever.
    event_log_retention: tuple[float | None, float | None] = (DEFAULT_RETAIN_S, DEFAULT_RETAIN_METRICS_S)
    profile: str | None = None
    master: str | None = None
    max_parallel_flows: int = DEFAULT_PARALLEL_FLOWS
    # None if it is not set.
    max_flow_retries: int | None = None
    connectors: tuple[str, ...] = ()
    # Old name to new name.
    renamed_datasets: Mapping[str, str] = field(default_factory=_no_texts)
    renamed_flows: Mapping[str, str] = field(default_factory=_no_texts)
    # Path prefixes to their targets, absolute.
    paths: Mapping[str, str] = field(default_factory=_no_texts)
    secrets_directory: Path | None = None
    alerts: AlertSettings = field(default_factory=AlertSettings)
    lineage: LineageSettings = field(default_factory=LineageSettings)
    schedules: tuple[Schedule, ...] = ()
    # How often a scheduler starts a failed update again, unless its schedule says otherwise.
    update_retries: int = DEFAULT_UPDATE_RETRIES
    approval: ApprovalPolicy = field(default_factory=ApprovalPolicy)
    # By the canonical URI of a bucket.
    stores: Mapping[str, StoreSettings] = field(default_factory=dict)
    # By the name of the catalog, in lower case.
    catalogs: Mapping[str, CatalogSettings] = field(default_factory=dict)
    # Of a stage alone: the paths of production, and the datasets that the stage has itself.
    production: StorageLayout | None = None
    staged: frozenset[QualifiedName] = frozenset()
    # Keys that are accepted without effect, and why.
    notices: tuple[tuple[str, str], ...] = ()
    locations: Mapping[str, Location] = field(default_factory=dict, repr=False, compare=False)

    @property
    def naming(self) -> Naming:
        """The default catalog and schema."""
        return Naming(schema=self.schema, catalog=self.catalog)

    def flow_retries(self, *, continuous: bool) -> int | None:
        """How often a flow is retried; None for no limit, the default of a continuous update."""
        if self.max_flow_retries is not None:
            return self.max_flow_retries
        return None if continuous else DEFAULT_FLOW_RETRIES

    @property
    def layout(self) -> StorageLayout:
        """The paths below the storage."""
        local_root = ""
        if is_store_uri(self.storage):
            # Profiles may have storages of their own.
            digest = hashlib.sha256(self.storage.encode()).hexdigest()[:12]
            local_root = str(self.root / ".headrace" / f"storage-{digest}")
        if self.production is not None:
            return StagedLayout(self.storage, local_root, production=self.production, datasets=self.staged)
        return StorageLayout(self.storage, local_root)

    @property
    def production_layout(self) -> StorageLayout:
        """The paths below the storage; for a stage, those of production."""
        return self.layout if self.production is None else self.production

    @property
    def all_connectors(self) -> tuple[str, ...]:
        """The connectors that are set, and the one that the storage needs."""
        needed = CONNECTORS.get(StoreUri.parse(self.storage).scheme) if is_store_uri(self.storage) else None
        return self.connectors if needed is None or needed in self.connectors else (*self.connectors, needed)

    @property
    def catalogs_to_read(self) -> Mapping[str, CatalogSettings]:
        """The same metastores, in which nothing is published: for stages and tests."""
        return {name: replace(catalog, publish=()) for name, catalog in self.catalogs.items()}

    def open_secrets(self, environ: Mapping[str, str]) -> Secrets:
        """The secrets that this pipeline can see."""
        named = environ.get(DIRECTORY_VARIABLE)
        return Secrets(environ, self.root / named if named else self.secrets_directory, from_keyring)

    def resolved_configuration(self, secrets: Secrets, environ: Mapping[str, str]) -> Mapping[str, str]:
        """``configuration`` with its references replaced; never print it.

        Raises:
            Problems: every reference that cannot be resolved.
        """
        return self._resolved("configuration", self.configuration, secrets, environ)

    def resolved_spark_conf(self, secrets: Secrets, environ: Mapping[str, str]) -> Mapping[str, str]:
        """``spark_conf`` with its references replaced; never print it.

        Raises:
            Problems: every reference that cannot be resolved.
        """
        return self._resolved("spark_conf", self.spark_conf, secrets, environ)

    def resolved_parameters(self, secrets: Secrets, environ: Mapping[str, str]) -> Mapping[str, str]:
        """``parameters`` with their references replaced; never print them.

        Raises:
            Problems: every reference that cannot be resolved.
        """
        return self._resolved("parameters", self.parameters, secrets, environ)

    def _resolved(
        self, what: str, values: Mapping[str, str], secrets: Secrets, environ: Mapping[str, str]
    ) -> Mapping[str, str]:
        resolved: dict[str, str] = {}
        problems: list[PipelineError] = []
        for key, text in values.items():
            try:
                location = self.locations.get(f"{what}.{key}", Location(self.file.name))
                resolved[key] = resolve(text, secrets, environ, location=location)
            except PipelineError as error:
                problems.append(error)
        raise_all(problems)
        return MappingProxyType(resolved)
