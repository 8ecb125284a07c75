"""Surveys and stages of labels: what a slab finds out, and what it does with the answers."""
