"""numpy's functions and array methods for volumes."""
