"""Algorithms: one paper a file, and training at one site."""
