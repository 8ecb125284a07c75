"""Time and memory of a recipe, measured on a part of its inputs."""
