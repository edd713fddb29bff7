"""Wardround: hospitals train one clinical text-mining model together; no note leaves its hospital."""

from importlib.metadata import version

__all__ = ["__version__"]

__version__ = version("wardround")
