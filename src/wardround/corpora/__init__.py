"""Corpora: one reader and writer a format, splits, partitions, checks, and the built-in hospitals."""
