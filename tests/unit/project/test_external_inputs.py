"""What an update records of the inputs of a flow outside of the pipeline."""

from __future__ import annotations

import json

from headrace.graph.analysis import Analysis, Source, SourceKind
from headrace.model.external_input import ExternalInput
from headrace.model.schema import Schema
from headrace.project.update.definition_events import external_inputs


def test_inputs_are_recorded_with_their_kind_and_without_secrets_of_addresses():
    loader = Source(SourceKind.AUTO_LOADER, json.dumps({"path": "s3a://KEY:SECRET@bucket/in"}))
    files = Source(SourceKind.FILES, json.dumps({"paths": ["/data/a?.json", "/data/b"], "recursive": False}))
    topics = Source(SourceKind.OTHER, "topic orders")
    batch = "csv https://store/x.csv?sig=SECRET&se=1"
    external = (loader.name, files.name, topics.name, batch, batch)

    found = external_inputs(Analysis(Schema(), streaming=True, sources=(loader, files, topics), external=external))

    assert found == (
        ExternalInput("auto loader", "s3a://bucket/in"),
        ExternalInput("files", "/data/a?.json, /data/b"),
        ExternalInput("stream", "topic orders"),
        ExternalInput("batch", "csv https://store/x.csv"),
    )
