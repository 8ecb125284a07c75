"""Inputs: everything that `open` accepts, and the identity of its stores."""
