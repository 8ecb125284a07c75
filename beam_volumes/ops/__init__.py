"""The operations that users call, by family, with their stages, reductions and surveys."""
