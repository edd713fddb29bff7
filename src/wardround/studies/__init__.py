"""From a request to a finished run: assemble, train, save, resume."""
