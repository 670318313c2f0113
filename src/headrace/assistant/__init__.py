"""Answers questions about streaming tables and pipelines without a language model, a network or a session."""
