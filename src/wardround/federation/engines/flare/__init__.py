"""The networked engine: sites in their own houses, joined by NVIDIA FLARE's cells over mutual TLS."""
