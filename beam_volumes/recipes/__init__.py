"""Recipes: what YAML documents ask for, checked, and built into targets that `compute` takes."""
