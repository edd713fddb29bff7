"""Corpora: formats with their readers and writers, splits, partitions, checks, and the built-in hospitals."""
