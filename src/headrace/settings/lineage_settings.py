"""What the settings say about lineage: the namespace of jobs, and where events are sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from headrace.model.location import Location
from headrace.settings.secrets import Secrets, resolve

DEFAULT_EVERY_S = 600.0


def _no_headers() -> Mapping[str, str]:
    return MappingProxyType({})


@dataclass(frozen=True)
class LineageFile:
    """A file to which events are appended, one JSON object a line."""

    path: Path


@dataclass(frozen=True)
class LineageServer:
    """A server that events are posted to; *api_key* is empty without one."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=_no_headers, repr=False)
    api_key: str = field(default="", repr=False)


@dataclass(frozen=True)
class LineageTransport:
    """A way to send events, with references to secrets that are not resolved yet."""

    name: str
    target: LineageFile | LineageServer
    location: Location = field(default=Location("pipeline.yml"), compare=False)

    def resolved(self, secrets: Secrets, environ: Mapping[str, str]) -> LineageTransport:
        """The transport with its references replaced. Its URL and its headers are redacted from then on.

        Raises:
            PipelineError: SECRET.* if a reference cannot be resolved.
        """
        target = self.target
        if isinstance(target, LineageFile):
            return self

        def value(text: str) -> str:
            return resolve(text, secrets, environ, location=self.location)

        headers = MappingProxyType({name: value(text) for name, text in target.headers.items()})
        found = LineageServer(value(target.url), headers, value(target.api_key))
        # A URL in the file has no secrets, and its host may be in other texts.
        if found.url != target.url:
            secrets.register(found.url)
        return replace(self, target=found)


@dataclass(frozen=True)
class LineageSettings:
    """The settings of lineage; without transports, it is off.

    Attributes:
        namespace: of jobs; None for that of the pipeline.
        every_s: how often a run that goes on is reported, at most.
        transports: where events are sent.
    """

    namespace: str | None = None
    every_s: float = DEFAULT_EVERY_S
    transports: tuple[LineageTransport, ...] = ()

    def namespace_of(self, pipeline_id: str) -> str:
        """The namespace of the jobs of a pipeline."""
        return self.namespace or f"headrace://{pipeline_id}"
