"""Brings tables, checkpoints and epochs to where the plan wants them, and starts queries."""
