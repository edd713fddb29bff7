"""Tasks: encode documents, compute a loss, decode and score."""
