"""Where the time and memory of a recipe go, tried on a part of it."""
