"""One module for each format."""
