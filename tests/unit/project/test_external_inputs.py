"""What an update records of inputs outside of the pipeline, and of expectations."""

from __future__ import annotations

import json

import pytest

from headrace.graph.analysis import Analysis, Source, SourceKind
from headrace.model.expectation_facts import ExpectationFacts
from headrace.model.expectations import Action, Expectation
from headrace.model.external_input import ExternalInput
from headrace.model.location import Location
from headrace.model.schema import Schema
from headrace.model.table_rules import Fresh, RowCount, Unique
from headrace.project.update.definition_events import external_inputs
from headrace.project.update.expectation_facts import expectation_facts


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


@pytest.mark.parametrize(
    ("predicate", "assertion", "column"),
    [
        ("id IS NOT NULL", "not_null", "id"),
        ("`order id` is not null", "not_null", "order id"),
        ("amount > 0 AND amount < 10", "custom_sql", "amount"),
        ("address.zip RLIKE '[0-9]+'", "custom_sql", "address"),
        ("id > 0 OR name = 'x'", "custom_sql", None),
        ("upper(id) IS NOT NULL", "custom_sql", "id"),
        ("no (valid", "custom_sql", None),
        ("true", "custom_sql", None),
        (Unique(("id",)), "unique", "id"),
        (Unique(("id", "day")), "unique", None),
        (Fresh("at", 60.0), "freshness", "at"),
        (RowCount(1), "row_count", None),
        (object(), "custom_sql", None),
    ],
)
def test_an_expectation_is_about_a_column_and_of_a_class_that_others_know(predicate, assertion, column):
    found = expectation_facts(Expectation("e", Action.WARN, predicate, Location("a.py")))

    assert found == ExpectationFacts("e", assertion, column)
