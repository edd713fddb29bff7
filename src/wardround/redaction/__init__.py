"""Redaction: find identifying text in notes and replace it, with an audit, a review page and resume."""
