"""Fault injection: real processes are killed, stopped and raced at seeded points; the tables must stay correct.

``make campaign`` runs all of it; ``python -m campaign --help`` says how to run less, and how to repeat one point.
"""
