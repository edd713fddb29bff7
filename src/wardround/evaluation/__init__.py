"""Scores as counts that are added first and divided last. Nothing here knows about models."""
