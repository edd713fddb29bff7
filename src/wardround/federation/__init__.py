"""The first door: how a coordinator asks sites, and the engines that carry the question."""
