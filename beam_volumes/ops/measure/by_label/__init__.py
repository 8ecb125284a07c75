"""Numbers of a volume, also of each of some labels."""
