"""The second door: how updates become one, who may read them, and the record of what left a site."""
