"""Attacks that measure what updates and models reveal about the notes they were made from."""
