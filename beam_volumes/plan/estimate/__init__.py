"""Estimates beyond one plan: time, cost, accelerators and temporary storage."""
