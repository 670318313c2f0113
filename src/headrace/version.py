"""The version of the package. A module of its own, as every layer may import it."""

__version__ = "0.1.0"
