"""Single steps on slabs of a volume, for pipelines of one's own."""
