"""The storage of a stage: its settings, its lease, and the health of its flows."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from headrace.events.last_batches import last_batches
from headrace.model.change_classes import ApprovalPolicy
from headrace.model.savepoint_policy import NO_SAVEPOINTS
from headrace.project.lease import Lease
from headrace.project.lease_holders import host_name
from headrace.settings.alert_settings import AlertSettings
from headrace.settings.lineage_settings import LineageSettings
from headrace.settings.settings import Settings
from headrace.storage.health import FlowHealth, health_of_flows
from headrace.storage.stages.manifest import Stage
from headrace.storage.stages.stored import Stages


def stage_settings(settings: Settings, stage: Stage) -> Settings:
    """The settings with which a stage is built: those of the pipeline, without what reaches outside.

    It reads the tables of other datasets from production.

    Args:
        settings: the pipeline's.
        stage: the stage.
    """
    return replace(
        settings,
        storage=str(Stages(settings.layout).storage(stage)),
        production=settings.layout,
        staged=frozenset(map(settings.naming.canonical, stage.datasets)),
        continuous=False,
        savepoints=NO_SAVEPOINTS,
        # It sends no messages, and only the swap changes what is deployed.
        alerts=AlertSettings(),
        lineage=LineageSettings(),
        approval=ApprovalPolicy(),
        catalogs=settings.catalogs_to_read,
        # The stage has nothing under old names.
        renamed_datasets={},
        renamed_flows={},
    )


def stage_lease(staged: Settings, environ: Mapping[str, str]) -> Lease:
    """The lease of a stage, which keeps other processes from building it.

    Args:
        staged: the settings of the stage.
        environ: the process environment.
    """
    return Lease(staged.layout.lease, host_name(environ), time.time)


def health(settings: Settings) -> tuple[FlowHealth, ...]:
    """The flows of a storage, healthy or not."""
    logged = last_batches(settings.layout.events)
    return health_of_flows(settings.layout, settings.naming, settings.id, logged)
