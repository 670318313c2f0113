"""A notebook session for tests: that of all tests, with a storage of the test's own."""

from __future__ import annotations

import os
import textwrap
from contextlib import contextmanager
from pathlib import Path

from headrace.scripts.namespace import Namespace
from headrace.scripts.script_storage import script_storage_of
from headrace.scripts.session import open_notebook_session
from headrace.spark.notebook.notebook_session import activated


class Scripts:
    """Runs texts as scripts of one storage, each in a namespace of its own that they leave behind."""

    def __init__(self, folder):
        self.folder = folder
        self.said = []

    @contextmanager
    def ready(self, name="script", **confs):
        """The names that a script finds."""
        around = script_storage_of(self.folder, os.environ)
        ready = open_notebook_session(around, script=name, say=self.said.append, confs=confs)
        with activated(ready):
            try:
                yield ready, Namespace(ready, around.secrets)
            finally:
                for started in ready.queries:
                    started.query.stop()
                ready.names.unregister_all()
                ready.session.catalog.setCurrentDatabase("default")

    def run(self, text, name="script", **widgets):
        """Run a text as a script; returns what is in its namespace afterwards."""
        with self.ready(name) as (_, namespace):
            file = self.folder / f"{name}.py"
            names = namespace.of(file, widgets)
            exec(compile(textwrap.dedent(text), str(file), "exec"), names)
            return names

    def rows(self, query):
        """The rows of a query, in a session that was made ready anew."""
        with self.ready("rows") as (ready, _):
            return [tuple(row) for row in ready.session.sql(query).collect()]

    def tables(self):
        """The tables of the storage, by their folders."""
        root = Path(self.folder) / "storage" / "tables"
        return sorted(str(log.parent.relative_to(root)) for log in root.rglob("_delta_log") if log.parent.is_dir())
