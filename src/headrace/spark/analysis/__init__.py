"""Reads analyzed query plans: inputs, sources, stateful operators, lineage."""

# The modules that other packages may import.
__all__ = [
    "column_lineage",
    "distinct_counts",
    "lineage",
    "merge_rules",
    "plan_columns",
    "plans",
    "query_identity",
    "refresh_rules",
    "relations",
    "restricted_query",
    "state_operators",
    "static_inputs",
]
