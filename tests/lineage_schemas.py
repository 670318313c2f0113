"""Checks events of lineage with the JSON schemas of OpenLineage."""

from __future__ import annotations

import json
from datetime import datetime
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from jsonschema import Draft202012Validator, FormatChecker
from referencing import Registry, Resource

FOLDER = Path(__file__).parent / "fixtures" / "openlineage"
# Our own facet, which OpenLineage has no schema of.
OWN_FACETS = {"headrace_batch"}
FORMATS = FormatChecker(["uuid"])


@FORMATS.checks("date-time", raises=ValueError)
def _is_time(text):
    return datetime.fromisoformat(text).tzinfo is not None


@FORMATS.checks("uri", raises=ValueError)
def _is_uri(text):
    parts = urlsplit(text)
    return bool(parts.scheme and (parts.netloc or parts.path)) and " " not in text


@cache
def _documents():
    return {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.rglob("*.json"))}


@cache
def _validator(schema, definition):
    documents = _documents()
    registry = Registry().with_resources((one["$id"], Resource.from_contents(one)) for one in documents.values())
    reference = {"$ref": f"{documents[schema]['$id']}#/$defs/{definition}"}
    return Draft202012Validator(reference, registry=registry, format_checker=FORMATS)


@cache
def _facet_schemas():
    return {next(iter(one["properties"])): name for name, one in _documents().items() if name != "OpenLineage"}


def check_run_event(event):
    """Check an event and each of its facets; the URL of a facet's schema names the version that it is checked with."""
    _validator("OpenLineage", "RunEvent").validate(event)
    places = [event["run"]["facets"], event["job"]["facets"]]
    for dataset in (*event["inputs"], *event["outputs"]):
        places += [dataset.get(key, {}) for key in ("facets", "inputFacets", "outputFacets")]
    for facets in places:
        for key, facet in facets.items():
            if key in OWN_FACETS:
                continue
            name = _facet_schemas()[key]
            assert facet["_schemaURL"] == f"{_documents()[name]['$id']}#/$defs/{name}"
            _validator(name, name).validate(facet)
