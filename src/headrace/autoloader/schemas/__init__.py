"""Schemas of a file stream: inferred from samples, hinted, stored, widened."""
