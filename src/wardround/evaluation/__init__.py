"""Scores as counts: added, then divided. Never sees a model."""
