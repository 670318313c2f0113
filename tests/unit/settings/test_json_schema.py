"""The JSON schema for editors and the checker agree about keys and types, for every settings file of the repository."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import fastjsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from headrace.errors import PipelineError, Problems
from headrace.options.option import Treatment
from headrace.settings.check import Checker
from headrace.settings.document import BOOLEAN, FLOAT, INTEGER, NULL, _Yaml12Loader, read_document
from headrace.settings.json_schema import EDITOR_COMMENT, SCHEMA_FILE, settings_schema
from headrace.settings.keys import KEYS, Key, ValueType, keys_below
from headrace.settings.load import load_settings

ROOT = Path(__file__).resolve().parents[3]
# What the schema and the checker both know.
CODES = {"SETTINGS.UNKNOWN_KEY", "SETTINGS.REFUSED", "SETTINGS.WRONG_TYPE"}
BLOCK = re.compile(r"^```(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMES = {"pipeline.yml", "pipeline.yaml", "pipeline.json", "spark-pipeline.yml", "vendor_pipeline.json"}


def settings_files() -> dict[str, tuple[str, str]]:
    """The name and the text of each settings file in the repository, also of those in Markdown."""
    found = {}
    for folder in ("examples", "src", "tests", "docs", "bench", "conformance"):
        for file in sorted((ROOT / folder).rglob("*")):
            place = file.relative_to(ROOT).as_posix()
            if file.name in NAMES:
                found[place] = file.name, file.read_text(encoding="utf-8")
            elif file.suffix == ".md":
                for number, (name, text) in enumerate(BLOCK.findall(file.read_text(encoding="utf-8"))):
                    if name in NAMES or (name == "yaml" and text.startswith("name: ")):
                        kind = name if name in NAMES else "pipeline.yml"
                        found[f"{place} {number}"] = kind, text
    return found


FILES = settings_files()


@pytest.mark.parametrize("place", FILES)
def test_the_schema_accepts_a_settings_file_of_the_repository_unless_the_checker_finds_a_wrong_key(tmp_path, place):
    name, text = FILES[place]
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    try:
        root = read_document(file)
    except PipelineError:
        # It is no document, so an editor does not compare it either.
        return

    assert accepts(value_of(root), KEYS_AND_TYPES) == (not key_problems(root))
    assert accepts(value_of(root)) or not loads(file)


def test_settings_files_with_and_without_wrong_keys_were_found():
    codes = {"unknown_key.md", "refused_key.md", "wrong_type.md"}

    assert codes <= {Path(place.split()[0]).name for place in FILES}
    assert {"examples/flights/pipeline.yml", "src/headrace/templates/medallion/pipeline.yml"} <= set(FILES)
    assert len(FILES) > 40


def maps(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(st.sampled_from(["a", "name", "path"]), values, max_size=2)


SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "x", "1 day", "default"])
ANY = st.recursive(SCALARS | st.just(0.5), lambda inner: st.lists(inner, max_size=2) | maps(inner), max_leaves=4)


def section(path: str) -> st.SearchStrategy[Any]:
    """A mapping with a few of its keys, and sometimes an unknown one."""
    known = {name: value(key) | ANY for name, key in keys_below(path).items()}
    entry = st.sampled_from(sorted(known)).flatmap(lambda name: st.tuples(st.just(name), known[name]))
    unknown = st.tuples(st.just("unheard_of"), SCALARS)
    return st.lists(entry | entry | entry | unknown, max_size=3).map(dict)


def value(key: Key) -> st.SearchStrategy[Any]:
    """A value of the type of a key, or an empty one if it is refused."""
    if key.treatment is Treatment.REFUSED:
        return st.sampled_from([None, False, "", [], {}])
    below = {ValueType.SECTIONS: "[]", ValueType.NAMED_SECTIONS: ".*", ValueType.SWITCHED_SECTIONS: ".*"}.get(
        key.type, ""
    )
    match key.type:
        case ValueType.SECTION:
            return section(key.path)
        case ValueType.SECTIONS:
            return st.lists(section(key.path + below), max_size=2)
        case ValueType.NAMED_SECTIONS:
            return maps(section(key.path + below))
        case ValueType.SWITCHED_SECTIONS:
            return maps(section(key.path + below) | st.sampled_from(["off", "OFF", "False", "oFF", False, None]))
        case _:
            return {
                ValueType.TEXT: st.sampled_from(key.choices or ("x", "1 day")),
                ValueType.BOOLEAN: st.booleans(),
                ValueType.NUMBER: st.integers(1, 9),
                ValueType.DECIMAL: st.integers(1, 9) | st.just(0.5),
                ValueType.TEXTS: st.lists(st.just("x"), max_size=2),
                ValueType.MAP: maps(st.sampled_from(["x", 1, 0.5, True])),
                ValueType.ANY_MAP: maps(ANY),
                ValueType.ANY_LIST: st.lists(ANY, max_size=2),
            }[key.type]


@given(section("").map(lambda found: {**found, "name": "shop"}))
@settings(max_examples=examples(few=60, many=500), deadline=None)
def test_the_schema_refuses_exactly_what_the_checker_refuses_about_keys_and_types(document):
    root = yaml.compose(json.dumps(document), Loader=_Yaml12Loader)

    assert accepts(document, KEYS_AND_TYPES) == (not key_problems(root))


@pytest.mark.parametrize("key", [key for key in KEYS if key.least is not None], ids=lambda key: key.path)
def test_the_least_value_of_a_number_is_that_of_the_loader(tmp_path, key):
    found = []
    for number in (key.least, key.least - 1):
        file = tmp_path / "pipeline.json"
        file.write_text(json.dumps({"name": "shop", key.path: number}))
        found.append((accepts({"name": "shop", key.path: number}), loads(file)))

    assert found == [(True, True), (False, False)]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"name": "a", "event_log": {"retain": "90 days"}}, True),
        ({"name": "a", "event_log": {"retain": "interval 1.5 HOURS"}}, True),
        ({"name": "a", "event_log": {"retain": "soon"}}, False),
        ({"name": "a", "clusters": [{"label": "maintenance"}]}, True),
        ({"name": "a", "approval": {"mode": "await", "required": ["rebuild"]}}, True),
        ({"name": "a", "approval": {"required": ["worst"]}}, False),
        ({"name": "a", "clusters": [{"label": ""}]}, False),
        ({"name": "a", "profiles": {"dev": None, "prod": {"schema_prefix": "p_"}}}, True),
        ({"name": " "}, False),
        ({}, False),
    ],
)
def test_the_schema_and_the_loader_agree_about_values(tmp_path, document, expected):
    (tmp_path / "pipeline.json").write_text(json.dumps(document))

    assert (accepts(document), loads(tmp_path / "pipeline.json")) == (expected, expected)


def test_a_refused_key_is_not_offered_and_says_why():
    refused = settings_schema()["properties"]["restart_window"]

    assert refused["doNotSuggest"]
    assert refused["errorMessage"].endswith("Remove it, and let your service manager restart the update.")


def test_every_property_is_described_without_links():
    def descriptions(schema):
        for found in schema.get("properties", {}).values():
            yield from [] if "$ref" in found else [found["description"]]
            yield from descriptions(found)
            yield from descriptions(found.get("items", {}))

    texts = list(descriptions(settings_schema()))

    assert len(texts) > 90
    assert [text for text in texts if "](" in text or not text.strip()] == []


def test_the_comment_for_editors_names_the_file_that_init_writes():
    assert f"$schema={SCHEMA_FILE}" in EDITOR_COMMENT


def accepts(document: Any, check: Any = None) -> bool:
    try:
        (check or COMPLETE)(document)
    except fastjsonschema.JsonSchemaException:
        return False
    return True


def loads(file: Path) -> bool:
    try:
        load_settings(file, environ={})
    except Problems:
        return False
    return True


def key_problems(root: yaml.Node) -> list[str]:
    """What the checker says about keys and types; the name is required too."""
    checker = Checker("pipeline.yml")
    try:
        found = checker.document(root)
    except Problems as problems:
        return [problem.code for problem in problems]
    missing = ["SETTINGS.MISSING_KEY"] if found.text("name") is None else []
    return missing + [problem.code for problem in checker.problems if problem.code in CODES]


def without_limits(schema: Any) -> Any:
    """A schema of keys and types alone, as the checker knows them."""
    if isinstance(schema, list):
        return [without_limits(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    limits = {"minimum", "pattern"} if "doNotSuggest" in schema else {"minimum", "pattern", "enum"}
    return {name: without_limits(item) for name, item in schema.items() if name not in limits}


def value_of(node: yaml.Node) -> Any:
    """The tree of a document as values, as an editor reads it."""
    if isinstance(node, yaml.MappingNode):
        return {str(key.value): value_of(item) for key, item in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [value_of(item) for item in node.value]
    plain = {
        NULL: lambda _text: None,
        BOOLEAN: lambda text: text.lower() == "true",
        INTEGER: int,
        FLOAT: float,
    }.get(node.tag, str)
    return plain(node.value)


COMPLETE = fastjsonschema.compile(settings_schema())
KEYS_AND_TYPES = fastjsonschema.compile(without_limits(settings_schema()))
