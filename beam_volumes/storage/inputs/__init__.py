"""Inputs: what `open` accepts, and the identity of what it reads."""
