"""The settings of a stage: those of the pipeline, with a storage of its own and without what reaches outside."""

from __future__ import annotations

from dataclasses import replace

from headrace.model.change_classes import ApprovalPolicy
from headrace.model.savepoint_policy import NO_SAVEPOINTS
from headrace.settings.alert_settings import AlertSettings
from headrace.settings.settings import Settings
from headrace.storage.stages.manifest import Stage
from headrace.storage.stages.stored import Stages


def stage_settings(settings: Settings, stage: Stage) -> Settings:
    """The settings with which a stage is built: it reads the tables of other datasets from production.

    Args:
        settings: the pipeline's.
        stage: the stage.
    """
    return replace(
        settings,
        storage=str(Stages(settings.layout).folder(stage.name)),
        production=settings.layout,
        staged=frozenset(map(settings.naming.canonical, stage.datasets)),
        continuous=False,
        savepoints=NO_SAVEPOINTS,
        # It sends no messages, and only the swap changes what is deployed.
        alerts=AlertSettings(),
        approval=ApprovalPolicy(),
        # The stage has nothing under old names.
        renamed_datasets={},
        renamed_flows={},
    )
