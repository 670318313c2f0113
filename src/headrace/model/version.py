"""The version of Headrace, which every layer may import."""

__version__ = "0.1.0"
