"""Engines that carry messages between the coordinator and its sites."""
