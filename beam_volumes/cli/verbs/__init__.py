"""The verbs of the command: what each takes, and what it does."""
