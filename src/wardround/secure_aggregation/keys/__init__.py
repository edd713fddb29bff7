"""Sealing keys: their secrets and storage, and how they reach the sites and no other party."""
