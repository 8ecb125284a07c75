"""The `beam-volumes` command, with one module per verb."""
