"""Sealing keys: what they are made of, who keeps them, and how they come to sites and to nobody else."""
