"""Fetches the locked jars of every connector, for `make setup`."""

from __future__ import annotations

import os
import sys

from headrace.connectors.fetch import jars
from headrace.connectors.java import check_java
from headrace.connectors.lock import connectors
from headrace.errors import PipelineError

if __name__ == "__main__":
    try:
        check_java(os.environ)
        jars(connectors(), environ=os.environ)
    except PipelineError as error:
        sys.exit(error.render())
