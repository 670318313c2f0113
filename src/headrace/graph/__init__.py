"""Builds the resolved graph from definitions: datasets, inputs and their order. Reports all problems at once."""
