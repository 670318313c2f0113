"""The knowledge base: short pages about streaming tables, found by name or by the words of a question.

:func:`~headrace.assistant.knowledge.library.library` has all pages. Those in the folder ``pages`` are written by hand;
the pages of error codes and lint rules come from the tables that the program itself uses.
"""

__all__ = ["library", "page"]
