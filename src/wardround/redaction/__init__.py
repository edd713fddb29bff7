"""De-identification: what to hide in a note, what to put in its place, and the record of it."""
