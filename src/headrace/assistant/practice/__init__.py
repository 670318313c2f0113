"""Practice questions with answers and proofs, and exercises, as data. The package ``headrace.practice`` runs them."""

__all__ = ["question"]
