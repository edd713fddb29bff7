"""Many studies from one file: the grid, the runs that are still missing, and one table of results."""
