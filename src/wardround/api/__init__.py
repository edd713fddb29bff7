"""The functions behind the names of `import wardround`: corpora, models, trainings, studies and redaction.

Each is what a command of `wardround` parses its options for. Import the names from `wardround` itself.
"""
