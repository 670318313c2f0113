"""SQL of the vendor or Spark that pipeline files do not support, with the reason and the fix for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.errors import PipelineError
from headrace.model.location import Location
from headrace.sql.cursor import Cursor


@dataclass(frozen=True)
class Refusal:
    """Why something is not supported, and the fix: sentences without a full stop."""

    reason: str
    fix: str


Words = tuple[str, ...]

_ELSEWHERE = "A pipeline file declares datasets and flows, and loading it changes no data"
_BY_HAND = Refusal(_ELSEWHERE, "Remove the statement, and run it with `headrace sql --write` when it is needed")
_BY_SCRIPT = Refusal(_ELSEWHERE, "Remove the statement, and run it where the pipeline is administered")
_SHOWN = Refusal(
    "A pipeline file has no place to show a result", "Remove the statement, and run it with `headrace sql`"
)
_BARE_QUERY = Refusal(
    "A query in a pipeline file needs a target dataset",
    "Write CREATE MATERIALIZED VIEW name AS in front of it, or run it with `headrace sql`",
)
_WRITTEN_BY_FLOWS = Refusal(
    "Only flows write to a pipeline's tables", "Write CREATE FLOW name AS INSERT INTO target query"
)
_KEYS = Refusal(
    "A key needs an action for rows that violate it",
    "Write CONSTRAINT name EXPECT (PRIMARY KEY (id)), or UNIQUE or FOREIGN KEY there",
)
_COMPUTED = Refusal("Only the query computes a column's values", "Compute the column in the query")

STATEMENTS: Mapping[Words, Refusal] = {
    ("INSERT",): _WRITTEN_BY_FLOWS,
    ("DROP",): Refusal(_ELSEWHERE, "Remove the dataset's definition from the files"),
    ("ALTER",): Refusal(_ELSEWHERE, "Change the dataset's definition"),
    ("REFRESH",): Refusal("A pipeline file cannot start an update", "Use `headrace run --refresh NAME`"),
    **{(verb,): _BARE_QUERY for verb in ("SELECT", "WITH", "FROM", "VALUES", "TABLE")},
    **{(verb,): _SHOWN for verb in ("DESCRIBE", "DESC", "SHOW", "EXPLAIN", "LIST")},
    **{(verb,): _BY_HAND for verb in ("UPDATE", "DELETE", "MERGE", "TRUNCATE", "OPTIMIZE", "VACUUM", "RESTORE")},
    **{(verb,): _BY_HAND for verb in ("COPY", "LOAD", "COMMENT", "ANALYZE", "UNDROP")},
    **{(verb,): _BY_SCRIPT for verb in ("GRANT", "REVOKE", "DENY", "MSCK", "REPAIR", "REORG", "SYNC")},
    **{(verb,): _BY_SCRIPT for verb in ("CACHE", "UNCACHE", "CLEAR", "RESET", "ADD", "UNSET", "REPLACE")},
    **{(verb,): _BY_SCRIPT for verb in ("BEGIN", "CALL", "DECLARE", "EXECUTE")},
}

CREATED: Mapping[Words, Refusal] = {
    ("TABLE",): Refusal(
        "A table in a pipeline is a streaming table or a materialized view",
        "Write CREATE STREAMING TABLE or CREATE MATERIALIZED VIEW",
    ),
    ("SINK",): Refusal(
        "SQL has no statement for a sink", "Declare it in a Python file: dp.create_sink(name, format, options)"
    ),
    **{
        (noun,): _BY_SCRIPT
        for noun in ("CATALOG", "DATABASE", "FUNCTION", "INDEX", "NAMESPACE", "POLICY", "SCHEMA", "VARIABLE", "VOLUME")
    },
}

MODIFIERS: Mapping[str, Refusal] = {
    "GLOBAL": Refusal("A view is visible only in its pipeline", "Write CREATE TEMPORARY VIEW"),
    "EXTERNAL": CREATED["TABLE",],
}

TEMPORARY_TABLE = Refusal(
    "A table in a pipeline is a streaming table or a materialized view",
    "Write CREATE PRIVATE STREAMING TABLE or CREATE PRIVATE MATERIALIZED VIEW, or CREATE TEMPORARY VIEW",
)
PRIVATE_VIEW = Refusal(
    "A view stores no rows that could be private", "Write CREATE TEMPORARY VIEW, which is visible only in its pipeline"
)

REFRESH_POLICY = Refusal(
    "A streaming table reads only what is new; the policy is for materialized views", "Remove the clause"
)

CLAUSES: Mapping[Words, Refusal] = {
    ("LOCATION",): Refusal(
        "Tables are stored below the pipeline's storage", "Remove it, and set storage in the settings"
    ),
    ("WITH", "ROW", "FILTER"): Refusal("Row filters are not supported yet", "Filter the rows in the query"),
    ("CLUSTER", "BY", "AUTO"): Refusal("Headrace does not choose clustering columns", "Name them: CLUSTER BY (a, b)"),
    ("CLUSTER", "BY", "NONE"): Refusal("Clustering is off unless columns are named", "Remove the clause"),
    ("DEFAULT", "COLLATION"): Refusal("A table has no collation of its own", "Set the collation of each column"),
    ("OPTIONS",): Refusal("Delta tables have properties, not options", "Use TBLPROPERTIES"),
}

# These end the statement, because a different grammar follows them.
FLOW_CLAUSES: Mapping[Words, Refusal] = {
    ("FLOW", "REPLACE", "WHERE"): Refusal(
        "Rows are replaced by key (REPLACE USING), not by a condition", "Use a materialized view"
    ),
    ("FLOW",): Refusal("A flow needs its own statement", "Write AS query, or CREATE FLOW"),
}

FLOWS: Mapping[Words, Refusal] = {
    ("INSERT", "OVERWRITE"): Refusal("A flow only appends", "Write INSERT INTO, or a materialized view"),
}

FLOW_TARGETS: Mapping[Words, Refusal] = {("REPLACE", "WHERE"): FLOW_CLAUSES["FLOW", "REPLACE", "WHERE"]}

COLUMNS: Mapping[Words, Refusal] = {
    ("MASK",): Refusal("Column masks are not supported yet", "Hide the value in the query"),
    ("GENERATED",): _COMPUTED,
    ("DEFAULT",): _COMPUTED,
    ("PRIMARY", "KEY"): _KEYS,
    ("FOREIGN", "KEY"): _KEYS,
    ("REFERENCES",): _KEYS,
    ("UNIQUE",): _KEYS,
    ("CHECK",): Refusal("A table's conditions are its expectations", "Write CONSTRAINT name EXPECT (condition)"),
    ("CONSTRAINT",): Refusal(
        "A constraint on a column is a key or a check", "Write CONSTRAINT name EXPECT (condition) after the columns"
    ),
}

VALUE_SHOWN = Refusal("A pipeline file has no place to show a value", "Write SET key = value")
OTHER_SET = Refusal("Only parameters and configuration can be set", "Write SET key = value")
VIEW_TYPES = Refusal("A view has the column types of its query", "Remove the type, and cast in the query")
VIEW_CLAUSE = Refusal("A view stores no rows", "Remove the clause, or create a materialized view")
CHANGING_QUERY = Refusal("The query of a dataset can only read", "Write CREATE FLOW name AS INSERT INTO target query")


def found_ahead(table: Mapping[Words, Refusal], cursor: Cursor) -> tuple[str, Refusal] | None:
    """The longest entry of *table* whose words follow, as a name and its refusal."""
    found = [words for words in table if cursor.ahead(*words)]
    if not found:
        return None
    longest = max(found, key=len)
    return " ".join(longest), table[longest]


def unsupported(what: str, refusal: Refusal, location: Location) -> PipelineError:
    """The error UNSUPPORTED.SQL for *what*."""
    return PipelineError("UNSUPPORTED.SQL", location=location, what=what, reason=refusal.reason, instead=refusal.fix)
