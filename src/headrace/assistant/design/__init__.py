"""From requirements to a project: questions, decisions, and files as text.

The path of a design: ``parse.py`` reads requirements, ``questions.py`` says what is open, ``blueprint.py`` finds the
datasets, ``decide.py`` decides, ``design.py`` renders the files.
"""

from __future__ import annotations

__all__ = [
    "answers",
    "assumed",
    "design",
    "difference",
    "parse",
    "questions",
    "record",
    "requirement_keys",
    "requirements",
    "sample_schema",
    "sampling",
]
