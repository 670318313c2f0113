"""Projects of designs: every combination renders, loads and lints; the examples are golden files."""

from __future__ import annotations

import json
import os
import re
from importlib.resources import files
from pathlib import Path

import pytest
import yaml
from tests.design_matrix import LATENCIES, OUTPUT_KINDS, PAIRS, SOURCE_KINDS, design_of, parsed, requirements_text

from headrace.assistant.design.design import make_design
from headrace.errors import Problems
from headrace.lint.lint_files import lint_text
from headrace.settings.discover import find_settings
from headrace.settings.load import load_settings

GOLDEN = Path(__file__).parent / "golden"
EXAMPLES = ("kafka_bronze", "late_events", "session_metrics")
COMMAND = re.compile(r"(?:^ {4}|`)(headrace [^`\n]+)", re.MULTILINE)
# The verb that shows the pages, which decisions name.
KNOWLEDGE_BASE = "docs"


def golden(name, text):
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("HEADRACE_GOLDEN") == "rewrite":
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == text


@pytest.fixture(scope="module")
def designs():
    """Every pair that can be combined, and the problems of every other one."""
    return {pair: design_of(pair) for pair in PAIRS}


def test_every_combination_renders_or_is_refused_by_name(designs):
    lines = []
    for source in SOURCE_KINDS:
        for latency in LATENCIES:
            found = {p.output: designs[p] for p in PAIRS if (p.source, p.latency) == (source, latency)}
            refused = {kind: made for kind, made in found.items() if isinstance(made, Problems)}
            lines.append(
                f"{source}, {latency}: {', '.join(kind for kind in found if kind not in refused) or 'nothing'}"
            )
            lines += [f"  {error.message}" for made in refused.values() for error in made]
            assert all(f'"events_{kind}"' in str(made) for kind, made in refused.items())

    golden("combinations", "\n".join(lines) + "\n")


def test_no_generated_program_violates_a_lint_rule(designs):
    programs = {
        (path.rpartition("/")[2], text)
        for made in designs.values()
        if not isinstance(made, Problems)
        for path, text in made.files.items()
        if path.startswith("transformations/")
    }

    assert [found for name, text in programs for found in linted(name, text)] == []
    assert len(programs) > len(SOURCE_KINDS) * len(OUTPUT_KINDS)


def test_generated_programs_and_tests_compile_and_settings_load_in_both_profiles(designs, tmp_path):
    # Two latencies, of a continuous update and of real-time mode, have all that settings can have.
    for pair, made in designs.items():
        if isinstance(made, Problems) or pair.latency not in LATENCIES[2:]:
            continue
        for path, text in made.files.items():
            if path.endswith(".py"):
                compile(text, path, "exec")
        folder = tmp_path / str(pair)
        (folder / "transformations").mkdir(parents=True)
        (folder / "pipeline.yml").write_text(made.files["pipeline.yml"], encoding="utf-8")
        for profile in ("sample", "production"):
            settings = load_settings(find_settings(folder), profile=profile, environ={})
            assert ("real" in settings.configuration["design.sources"]) == (profile == "production")


def test_requirements_with_all_answers_give_the_same_design(designs):
    for pair, made in designs.items():
        if not isinstance(made, Problems) and pair.latency in LATENCIES[::2]:
            again = make_design(parsed(made.files["requirements.yml"]))
            assert dict(again.files) == dict(made.files)


@pytest.mark.parametrize(
    ("source", "record_format"),
    [("kafka", "csv"), ("kinesis", "csv"), ("files", "avro"), ("files", "csv"), ("cdc", "json"), ("delta", "delta")],
)
def test_each_format_of_records_renders(source, record_format):
    made = make_design(parsed(requirements_text(source, ["bronze", "scd1"], "1 hour", record_format)))

    found = [one for path, text in made.files.items() if path.endswith("s.py") for one in linted(path, text)]
    assert found == []
    with pytest.raises(Problems, match="format"):
        make_design(parsed(requirements_text(source, ["bronze"], "1 hour", "protobuf")))


@pytest.mark.parametrize("form", ["delta", "kafka", "jdbc", "http", "json", "csv", "parquet", "orc"])
def test_each_format_of_sinks_renders_with_the_options_that_it_needs(form):
    document = yaml.safe_load(requirements_text("kafka", ["sink"], "1 hour"))
    document["outputs"][0] |= {"format": form, "keys": ["event_id"]}

    text = make_design(parsed(yaml.safe_dump(document))).files["transformations/sinks.py"]

    assert (f'"{form}"' in text, linted("sinks.py", text)) == (True, [])
    assert "spark.conf.get(" in text.partition("else:")[2]


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_files_of_an_example(example, name):
    made = make_design(parsed(example(name)))

    texts = [f"=== {path}\n{text}" for path, text in made.files.items() if not path.endswith("schema.json")]
    golden(name, "".join(texts))


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_json_of_a_design_has_everything_that_its_pages_say(example, name):
    made = make_design(parsed(example(name)))

    value = json.loads(json.dumps(made.to_json()))
    assert list(value) == ["decisions", "datasets", "state_estimate", "mermaid", "files", "checklist"]
    assert all(f"### {decision['id']}" in made.files["design.md"] for decision in value["decisions"])
    assert all(criterion["text"] in made.files["checklist.md"] for criterion in value["checklist"])
    assert all(dataset["name"] in made.files["design.md"] for dataset in value["datasets"])
    assert {file["path"]: file["text"] for file in value["files"]} == made.files


def test_the_commands_of_the_pages_exist(designs):
    grammar = json.loads(files("headrace.cli").joinpath("completion/grammar.json").read_text(encoding="utf-8"))
    commands = {
        command
        for made in designs.values()
        if not isinstance(made, Problems)
        for page in ("runbook.md", "checklist.md", "design.md")
        for command in COMMAND.findall(made.files[page])
    }

    unknown = [command for command in commands if not is_known(command, grammar)]
    assert len(commands) > 50
    assert unknown == []


def linted(name, text):
    """What lint finds in a program."""
    return [(name, found.message) for found in lint_text(text, ".py", name, in_project=True).findings]


def is_known(command, grammar):
    """Whether the verb of a command exists, and has its options."""
    words = command.split()[1:]
    node = grammar
    while words and words[0] in node.get("verbs", {}):
        node = node["verbs"][words.pop(0)]
    if words[:1] == [KNOWLEDGE_BASE]:
        return True
    options = {word.partition("=")[0] for word in words if word.startswith("--")}
    return node is not grammar and options <= {*node.get("options", {}), *grammar["options"]}


def test_the_keys_of_sample_rows_satisfy_rules(requirements):
    source = {"kind": "files", "schema": {"id": "BIGINT", "at": "TIMESTAMP"}, "keys": ["id"]}
    clean = {"name": "good", "kind": "clean", "rules": {"new": "id >= 5", "positive": "id > 0"}}

    made = make_design(requirements(clean, source=source, on_error="fail"))

    rows = [json.loads(line) for name in made.files if "sample/" in name for line in made.files[name].splitlines()]
    assert rows
    assert min(row["id"] for row in rows) >= 5
