"""The verbs of the command: the arguments and the work of each."""
