"""Adapters: the only code that holds a Spark session. Each package below is one room; pyproject.toml orders them."""
