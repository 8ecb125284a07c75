"""The graph cut into passes, and each pass compiled into a program."""
