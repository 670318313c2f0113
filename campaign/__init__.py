"""Faults on purpose: real processes are killed, stopped and raced at seeded places, and the tables must not show it.

``make campaign`` runs all of it; ``python -m campaign --help`` says how to run less, and how to repeat one point.
"""
