"""`compute`: from a request to results, on the runner that was asked for."""
