"""The catalogue that users call, in families, each with its stages, reductions and surveys."""
