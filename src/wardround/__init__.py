"""Wardround: hospitals train one clinical text-mining model together; no note leaves its hospital."""

__all__ = ["__version__"]

__version__ = "0.2.0.dev0"
