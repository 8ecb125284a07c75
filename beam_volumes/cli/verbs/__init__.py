"""The verbs of the command: their arguments and their work."""
