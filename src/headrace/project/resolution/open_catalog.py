"""Opens the session of a project, with a catalog that has no entries of other projects."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from headrace.errors import PipelineError
from headrace.model.names import QualifiedName
from headrace.project.scratch import scratch
from headrace.settings.secrets import Secrets
from headrace.settings.settings import Settings
from headrace.settings.vendor_confs import to_open_source_confs
from headrace.spark.notebook.notebook_session import release_tables
from headrace.spark.readers import auto_loader
from headrace.spark.session.catalog_entries import clear
from headrace.spark.session.listeners import remove_listeners
from headrace.spark.startup.open_session import open_session
from headrace.spark.update.catalog import Catalog
from headrace.stores.paths import storage_path


def open_catalog(settings: Settings, secrets: Secrets, environ: Mapping[str, str]) -> Catalog:
    """The session's catalog, without entries of other projects."""
    confs = dict(settings.resolved_spark_conf(secrets, environ))
    if settings.master:
        confs["spark.master"] = settings.master
    configuration = settings.resolved_configuration(secrets, environ)
    confs |= {key: value for key, value in configuration.items() if not key.startswith("pipelines.")}
    confs = to_open_source_confs(confs)
    confs[auto_loader.PATHS] = json.dumps(dict(settings.paths))
    session = open_session(
        name=f"headrace {settings.name}",
        connectors=settings.all_connectors,
        confs=confs,
        log_folder=_log_folder(settings),
        environ=environ,
        folder=settings.root,
        redact=secrets.redact,
    )
    release_tables()
    catalog = Catalog(session, settings.layout, settings.naming, scratch("stubs"))
    clear(session)
    _refuse_foreign_tables(catalog, settings)
    remove_listeners()
    return catalog


def _refuse_foreign_tables(catalog: Catalog, settings: Settings) -> None:
    """Refuse by name the tables of metastores that queries read."""

    def refuse(name: QualifiedName) -> None:
        if (name.catalog or "").casefold() in settings.catalogs:
            raise PipelineError("CATALOG.NOT_READ", table=name, catalog=name.catalog)

    catalog.names.refuse_foreign = refuse


def _log_folder(settings: Settings) -> Path:
    """The storage's log folder, if the storage exists; a verb that only reads does not create it."""
    logs = Path(settings.layout.logs)
    return logs if storage_path(settings.storage).is_dir() else scratch("logs")
