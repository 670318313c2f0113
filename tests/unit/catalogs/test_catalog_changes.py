"""Entries of published tables: what they say, whose they are, and what is changed so that they are as wanted."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from headrace.catalogs.changes import WantedEntry, changes, taken
from headrace.catalogs.entry import CatalogEntry, Owner, TableFacts, entry_of
from headrace.model.datasets import Kind

OURS = Owner("id-1", "shop", "/ours")
OTHERS = Owner("id-1", "shop", "/others")
SCHEMA = "spark.sql.sources.schema"
NAMES = ("a", "b", "c", "d")


def facts(name, **said):
    return TableFacts(name, Kind.STREAMING_TABLE, f"file:/ours/{name}", '{"type":"struct","fields":[]}', **said)


def entry(name, owner=OURS, **said):
    return entry_of(facts(name, **said), "sales", name, owner, "4.2.0")


def applied(found, made):
    """The entries of a metastore after changes."""
    after = dict(found)
    for change in made:
        if change.replaces:
            del after[change.entry.schema, change.replaces]
        assert (change.entry.schema, change.entry.name) not in after, "a name has two entries"
        after[change.entry.schema, change.entry.name] = change.entry
    return after


def stored(*entries):
    return {(one.schema, one.name): one for one in entries}


def test_a_long_schema_is_cut_into_parts_that_make_it_again():
    schema = json.dumps({"type": "struct", "fields": ["x" * 50] * 300})

    parameters = entry_of(replace(facts("a"), schema_json=schema), "sales", "a", OURS, "4.2.0").parameters

    parts = [parameters[f"spark.sql.sources.schema.part.{n}"] for n in range(int(parameters[f"{SCHEMA}.numParts"]))]
    assert "".join(parts) == schema
    assert max(map(len, parts)) <= 4000


def test_properties_of_a_table_cannot_replace_those_of_the_entry():
    said = {"EXTERNAL": "FALSE", "headrace.storage": "/others", "spark.sql.sources.provider": "csv", "tier": "gold"}

    parameters = entry("a", properties=said).parameters

    assert {key: parameters[key] for key in said} == {
        "EXTERNAL": "TRUE",
        "headrace.storage": "/ours",
        "spark.sql.sources.provider": "delta",
        "tier": "gold",
    }


def test_what_others_add_to_an_entry_stays_and_what_the_table_no_longer_has_goes():
    before = entry("a", properties={"tier": "gold"}, comment="old")
    seen = replace(before, parameters={**before.parameters, "steward": "Ann"})

    [change] = changes([WantedEntry(entry("a", properties={"team": "x"}))], (), stored(seen), OURS)

    said = change.entry.parameters
    assert (said.get("steward"), said.get("team"), said.get("tier"), said.get("comment")) == ("Ann", "x", None, None)


def test_a_name_of_a_pipeline_with_another_storage_is_taken():
    found = stored(entry("a", OTHERS), CatalogEntry("sales", "b", "file:/b", {}))
    wanted = [WantedEntry(entry(name)) for name in NAMES]

    assert [one.name for one in taken(wanted, found, OURS)] == ["a", "b"]
    assert {change.entry.name for change in changes(wanted, (), found, OURS)} == {"c", "d"}


def test_a_renamed_dataset_takes_its_entry_with_it():
    [change] = changes([WantedEntry(entry("b"), former="a")], [("sales", "a")], stored(entry("a")), OURS)

    assert (change.replaces, change.entry.name, change.entry.location) == ("a", "b", "file:/ours/b")


def test_the_entry_of_a_dataset_that_is_gone_is_marked_and_comes_back():
    found = stored(entry("a"))
    marked = applied(found, changes([], [("sales", "a")], found, OURS))

    assert marked["sales", "a"].is_removed
    assert applied(marked, changes([WantedEntry(entry("a"))], (), marked, OURS)) == found


@st.composite
def worlds(draw):
    owners = st.sampled_from((OURS, OTHERS))
    found = stored(*(entry(name, draw(owners), comment=draw(st.sampled_from(("", "x")))) for name in draw(_names())))
    wanted = []
    for name in draw(_names()):
        former = draw(st.sampled_from(("", *NAMES)))
        wanted.append(WantedEntry(entry(name), "" if former in {name, *(one.former for one in wanted)} else former))
    return found, tuple(wanted), [("sales", name) for name in draw(_names())]


def _names():
    return st.lists(st.sampled_from(NAMES), unique=True)


@settings(max_examples=examples(100, 1000))
@given(worlds())
def test_entries_become_as_wanted_and_those_of_others_stay(world):
    found, wanted, gone = world

    after = applied(found, changes(wanted, gone, found, OURS))

    for key, one in found.items():
        assert one.belongs_to(OURS) or after[key] == one, "an entry of others has changed"
    for one in wanted:
        held = after[one.key]
        assert not held.belongs_to(OURS) or held.updated(one.entry) == held, "an entry is not as wanted"
    left = [key for key in gone if key in after]
    assert list(changes([replace(one, former="") for one in wanted], left, after, OURS)) == []
