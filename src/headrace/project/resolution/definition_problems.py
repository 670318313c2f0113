"""Problems of declarations that need the settings, and no session."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.catalogs.published_names import publication_problems
from headrace.errors import PipelineError
from headrace.graph.build import Graph
from headrace.graph.custom_metrics import custom_metric_problems
from headrace.model.datasets import Definitions
from headrace.project.resolution.stored_secrets import stored_secrets
from headrace.settings.secrets import Secrets
from headrace.settings.settings import Settings


def definition_problems(
    definitions: Definitions, graph: Graph, settings: Settings, secrets: Secrets
) -> Iterator[PipelineError]:
    """Problems of reserved names, of secrets in stored views, of custom metrics, and of what is published.

    Args:
        definitions: the declarations.
        graph: built from them.
        settings: the pipeline's.
        secrets: their values must not be stored.
    """
    for dataset in graph.datasets.values():
        if dataset.name == settings.event_log:
            yield PipelineError("GRAPH.RESERVED_NAME", location=dataset.location, name=dataset.name)
    yield from stored_secrets(definitions, secrets)
    yield from publication_problems(graph.datasets, settings.catalogs, settings.naming)
    yield from custom_metric_problems(graph.datasets, graph.flows_into)
