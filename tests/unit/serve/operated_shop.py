"""A shop with something to decide on every page: a plan, a savepoint, schedules, quarantined rows, alerts."""

from __future__ import annotations

from pathlib import Path

from tests.unit.serve.quarantine_rows import quarantine, quarantined_row
from tests.unit.serve.test_changes_page import plan
from tests.unit.serve.test_savepoints_page import savepoint, stored

from headrace.settings.load import load_settings
from headrace.settings.storage import MonitoringFile

PLAN, APPLIED = "pl-20261120-aaaa", "pl-20261119-bbbb"
SAVEPOINT = "sp-20261119T120000Z-7e57"
_SETTINGS = """
schedules:
  nightly: {cron: "0 2 * * *", timezone: Europe/Berlin, refresh: [revenue]}
  arrivals: {files: /data/landing, quiet: 60s, at_most_every: 5m}
"""


def operated(shop, settings=""):
    """The shop, with more settings."""
    file = shop.root / "pipeline.yml"
    file.write_text(f"{file.read_text()}{_SETTINGS}{settings}")
    layout = load_settings(file, environ={}).layout
    rows = [quarantined_row(["valid"]), quarantined_row(["valid"], days=2), quarantined_row(["small"], days=1)]
    quarantine(f"{shop.table('orders')}_quarantine", *rows)
    plans = Path(layout.monitoring(MonitoringFile.PLANS))
    plans.mkdir(parents=True, exist_ok=True)
    # The files that it compares are other ones: what may be done with it is asked of its page.
    (plans / "a.json").write_text(plan(plan_id=PLAN, made_by="bob").to_text())
    stored(shop, savepoint(), savepoint("sp-20261119T130000Z-1111", "", plan_id=APPLIED))
    return shop
