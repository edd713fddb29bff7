"""Kits: the folders of keys, certificates and facts from which the parties of a networked study take part."""
