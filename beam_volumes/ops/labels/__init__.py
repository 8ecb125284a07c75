"""Connected components, labels, and tables of regions."""
