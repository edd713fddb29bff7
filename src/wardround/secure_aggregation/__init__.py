"""Both ends of the protected sum of updates, and the keys that protect it."""
