"""Practice questions with answers and proofs, and exercises, as data. The package ``headrace.practice`` runs them."""

__all__ = ["exercise", "exercise_data", "question"]
