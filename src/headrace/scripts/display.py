"""``display`` of a notebook: prints the rows of a DataFrame as a table, those of a stream batch by batch."""

from __future__ import annotations

import html
import re
import sys
from itertools import count
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from headrace.model.location import Location
from headrace.project.scratch import scratch
from headrace.spark.notebook.call_origin import called_from
from headrace.spark.notebook.notebook_session import NotebookSession, StartedQuery
from headrace.spark.notebook.stream_retry import ScriptQuery

MOST_ROWS = 1000
_WIDEST_CELL = 60
_TAG = re.compile(r"<(script|style)\b.*?</\1>|<[^>]+>", re.DOTALL | re.IGNORECASE)


class Display:
    """``display``: prints its argument.

    Prints at most a thousand rows of a DataFrame. Of a stream, prints each batch that has rows, until the stream ends;
    the stream starts from the beginning in each run.
    """

    def __init__(self, notebook_session: NotebookSession) -> None:
        self._notebook_session = notebook_session
        self._numbers = count(1)

    def __call__(self, shown: Any, *arguments: Any, **options: Any) -> None:
        """Print a frame of Spark's or pandas', or anything else as its text."""
        del arguments
        if not isinstance(shown, DataFrame):
            sys.stdout.write(f"{shown}\n")
        elif shown.isStreaming:
            self._stream(shown, options)
        else:
            shown.show(MOST_ROWS, truncate=_WIDEST_CELL)

    def _stream(self, frame: DataFrame, options: dict[str, Any]) -> None:
        name = options.get("streamName") or f"display_{next(self._numbers)}"

        def show(batch: DataFrame, number: int) -> None:
            if not batch.isEmpty():
                sys.stdout.write(f"{name}, batch {number}\n")
                batch.show(MOST_ROWS, truncate=_WIDEST_CELL)
                sys.stdout.flush()

        folder = scratch("display") / name
        writer = frame.writeStream.foreachBatch(show).option("checkpointLocation", str(folder))
        if options.get("processingTime") and not self._notebook_session.ignores_trigger_intervals:
            writer = writer.trigger(processingTime=options["processingTime"])
        try:
            query = writer.start()
        except AnalysisException as error:
            if not str(error.getCondition() or "").startswith("STREAMING_OUTPUT_MODE"):
                raise
            # Rows of an aggregation without a watermark may still change.
            query = writer.outputMode("complete").start()
        place = Location(*called_from())
        self._notebook_session.queries.append(StartedQuery(ScriptQuery(query), name, place))


def display_html(text: str) -> None:
    """``displayHTML``: prints the text of a page, without its tags."""
    lines = (" ".join(line.split()) for line in html.unescape(_TAG.sub(" ", text)).splitlines())
    sys.stdout.write("\n".join(filter(None, lines)) + "\n")
