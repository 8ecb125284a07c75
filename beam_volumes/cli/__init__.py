"""The command `beam-volumes`: one module for each verb."""
