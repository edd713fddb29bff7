"""Federated algorithms, one per file, and the baselines they are compared with."""
