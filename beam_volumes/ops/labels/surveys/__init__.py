"""Surveys and stages of labels: summaries of slabs, and how slabs use the answers."""
