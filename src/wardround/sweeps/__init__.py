"""Many studies side by side: a sweep file, its grid, the runs that are missing, one table."""
