"""What the state folder of a checkpoint says of operators, partitions and versions."""

from __future__ import annotations

import json

from headrace.checkpoints.state_stores import state_operators


def write(file, content):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)


def describe(folder, operator, **properties):
    """The metadata of an operator; with properties in its second version."""
    document = {"operatorInfo": {"operatorId": 0, "operatorName": operator}, "stateStoreInfo": []}
    if properties:
        write(folder / "_metadata" / "v2" / "0", "v2\n{}")
        document["operatorPropertiesJson"] = json.dumps(properties)
    write(folder / "_metadata" / ("v2/3" if properties else "metadata"), "v1\n" + json.dumps(document))


def test_operators_have_the_names_of_the_documentation_and_their_stores(tmp_path):
    describe(tmp_path / "state" / "0", "symmetricHashJoin")
    for store in ("0/left-keyToNumValues", "0/right-keyToNumValues", "1/left-keyToNumValues"):
        for version in (1, 2):
            write(tmp_path / "state" / "0" / store / f"{version}_ab-1.changelog", "12345")
            write(tmp_path / "state" / "0" / store / f".{version}_ab-1.changelog.crc", "not state")

    (found,) = state_operators(tmp_path)

    assert (found.name, found.partitions, found.files, found.size_bytes) == ("stream-stream join", 2, 6, 30)
    assert [(store.name, store.partition, store.version) for store in found.stores] == [
        ("left-keyToNumValues", 0, 2),
        ("right-keyToNumValues", 0, 2),
        ("left-keyToNumValues", 1, 2),
    ]


def test_variables_of_a_function_are_read_from_the_newest_metadata(tmp_path):
    describe(tmp_path / "state" / "0", "transformWithStateInPySparkExec", stateVariables=[{"stateName": "seen"}])
    write(tmp_path / "state" / "0" / "0" / "1.changelog", "")

    (found,) = state_operators(tmp_path)

    assert (found.name, found.variables) == ("transformWithState", ("seen",))


def test_an_operator_without_readable_metadata_has_no_name(tmp_path):
    write(tmp_path / "state" / "1" / "_metadata" / "metadata", "v1")
    write(tmp_path / "state" / "1" / "0" / "1.delta", "1")
    write(tmp_path / "state" / "0" / "0" / "1.delta", "1")

    assert [(found.number, found.name) for found in state_operators(tmp_path)] == [(0, ""), (1, "")]
    assert state_operators(tmp_path / "none") == ()
