"""Finds secrets in what would be stored."""

from __future__ import annotations

from headrace.errors import PipelineError
from headrace.model.datasets import Definitions, Kind, SqlQuery
from headrace.model.views import ViewDefinition
from headrace.settings.secrets import Secrets


def stored_secrets(definitions: Definitions, secrets: Secrets) -> tuple[PipelineError, ...]:
    """Problems for persisted views whose definitions contain the value of a secret, which would be stored."""
    datasets = {dataset.name: dataset for dataset in definitions.datasets if dataset.kind is Kind.PERSISTED_VIEW}
    views = [
        ViewDefinition.of(datasets[flow.target], flow.query, flow.spark_conf)
        for flow in definitions.flows
        if flow.target in datasets and isinstance(flow.query, SqlQuery)
    ]
    return tuple(
        PipelineError("VIEW.HOLDS_SECRET", location=datasets[view.name].location, name=view.name)
        for view in views
        if any(secrets.redact(text) != text for text in view.texts)
    )
