"""The web pages and the API of `headrace serve`: a process without Spark that reads pipelines."""

# The modules that other packages may import.
__all__ = ["addresses", "roles", "server", "tokens"]
