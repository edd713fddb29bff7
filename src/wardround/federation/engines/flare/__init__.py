"""The networked engine: sites at their hospitals, connected by NVIDIA FLARE's cells over mutual TLS."""
