"""Reads analyzed query plans: inputs, sources, stateful operators, lineage."""
