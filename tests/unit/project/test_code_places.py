"""Where the code defines a dataset, as the page of a dataset says."""

from __future__ import annotations

from headrace.model.location import Location
from headrace.project.inspection.code_places import code_places
from headrace.settings.load import load_settings


def test_datasets_and_flows_into_them_are_found_in_python_and_sql(tmp_path):
    (tmp_path / "pipeline.yml").write_text("name: shop\n")
    folder = tmp_path / "transformations"
    folder.mkdir()
    (folder / "a.py").write_text(
        "from headrace import pipelines as dp\n\n\n@dp.table(name='orders')\ndef any():\n    ...\n\n"
        "@dp.append_flow(target='orders')\ndef more():\n    ...\n\n@dp.table\ndef revenue():\n    ...\n"
    )
    (folder / "b.sql").write_text(
        "-- first\nCREATE VIEW v AS SELECT 1;\nCREATE STREAMING TABLE\n  sales.totals AS SELECT 1"
    )
    (folder / "broken.py").write_text("def (")
    settings = load_settings(tmp_path / "pipeline.yml", environ={})

    found = {name: code_places(settings, name) for name in ("orders", "revenue", "v", "totals", "more")}

    assert found == {
        "orders": (Location("transformations/a.py", 4), Location("transformations/a.py", 8)),
        "revenue": (Location("transformations/a.py", 12),),
        "v": (Location("transformations/b.sql", 2),),
        "totals": (Location("transformations/b.sql", 3),),
        "more": (),
    }
