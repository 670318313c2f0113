"""Fetches the locked jars of every connector and stores the classes of a start, for `make setup`."""

from __future__ import annotations

import os
import sys

from headrace.connectors.fetch import jars
from headrace.connectors.java import check_java
from headrace.connectors.lock import connectors
from headrace.errors import PipelineError
from headrace.project.create_class_archive import make_class_archive

if __name__ == "__main__":
    try:
        check_java(os.environ)
        jars(connectors(), environ=os.environ)
        print("Storing the classes that a start loads, so that later ones are faster", flush=True)
        make_class_archive(os.environ)
    except PipelineError as error:
        sys.exit(error.render())
