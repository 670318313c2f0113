"""The conformance run on a document of its own, in processes of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conformance.extract import blocks_of

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.long(
        guard=(
            "tests/unit/test_conformance.py::test_a_block_without_a_current_verdict_does_not_meet_its_claim",
            "tests/unit/test_conformance.py::test_a_check_is_read_with_its_answer",
            "tests/spark/test_script_files.py::test_chained_streams_are_stopped_when_all_of_them_are_idle",
        )
    ),
]

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = """\
```python
numbers.writeStream.format("memory").queryName("taken").trigger(processingTime="1 hour").start().awaitTermination()
```

```python
total = 1
```

```python
rows = nowhere.rows
```

```python
shown = nowhere.rows
```
"""
MAPPING = """
document = "000"
about = "a guide"

[[block]]
name = "000-01"
kind = "as written"
what = "a stream"
checked = "rows from before and after the start"
given = '''
here.table("numbers", "id INT", (1,))
numbers = spark.readStream.table("numbers")
'''
feed = "here.add('numbers', (2,))"
[[block.check]]
rows_of = "SELECT id FROM taken"
are = [[1], [2]]

[[block]]
name = "000-02"
kind = "as written"
what = "a value"
checked = "what is so without it, and what is not so with it"
given = "total = 1"
[[block.check]]
value = "total"
is = 1
[[block.check]]
value = "total + 1"
is = 3

[[block]]
name = "000-03"
kind = "replacement"
session = "plain"
replacement = 1
what = "rows of nowhere"
checked = "the rows"
edits = [["nowhere.rows", "3"]]
refused = "NameError"
[[block.check]]
value = "rows"
is = 3

[[block]]
name = "000-04"
kind = "replacement"
session = "plain"
replacement = 1
what = "rows of nowhere"
checked = "the rows"
edits = [["nowhere.rows", "3"]]
refused = "ValueError"
[[block.check]]
value = "shown"
is = 3
"""
REPLACEMENTS = """
[[replacement]]
number = 1
why = "There is no such place."
told = "Python: `NameError`."
instead = "A number."
"""


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    """The exit code, and what came of each block."""
    base = tmp_path_factory.mktemp("conformance")
    docs, mappings = base / "docs", base / "mappings"
    docs.mkdir()
    mappings.mkdir()
    (docs / "000_guide.txt").write_text(DOCUMENT)
    mapping = MAPPING
    for block in blocks_of("000", DOCUMENT):
        mapping = mapping.replace(
            f'name = "{block.name}"', f'name = "{block.name}"\nline = {block.line}\ndigest = "{block.digest}"'
        )
    (mappings / "000.toml").write_text(mapping)
    (mappings / "replacements.toml").write_text(REPLACEMENTS)
    options = ["--mappings", str(mappings), "--work", str(base / "work"), "--session", "plain"]
    call = [sys.executable, "-m", "conformance", str(docs), *options]
    done = subprocess.run(call, cwd=ROOT, capture_output=True, encoding="utf-8", check=False, timeout=500)
    lines = (base / "work" / "plain.jsonl").read_text().splitlines()
    return done.returncode, {found["name"]: found["faults"] for found in map(json.loads, lines)}


def test_an_endless_stream_processes_existing_and_new_input_and_ends(verdicts):
    _, faults = verdicts

    assert faults["000-01"] == []


def test_a_check_that_passes_before_its_block_or_fails_after_it_is_reported(verdicts):
    code, faults = verdicts

    assert code == 1
    assert faults["000-02"] == ["total was answered before the block ran", "total + 1 is 2, not 3"]


def test_a_replacement_counts_only_if_the_original_block_fails_with_the_expected_error(verdicts):
    _, faults = verdicts

    assert faults["000-03"] == []
    assert "it should fail with 'ValueError'" in faults["000-04"][0]
    assert "NameError" in faults["000-04"][0]
