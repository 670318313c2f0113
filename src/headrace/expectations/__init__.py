"""Expectations as column expressions: one mask per row, counted in the pass that writes."""
