"""What makes volumes arrays of numpy's kind: its functions, and the methods of its arrays."""
