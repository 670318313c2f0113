"""The version of Headrace, for all layers. To read that of the installed package takes as long as a scrape."""

from __future__ import annotations

from importlib import import_module

# By name, because a layer does not import what the package offers to its users.
VERSION: str = import_module("headrace").__version__
