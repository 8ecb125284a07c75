"""One run of a plan, the same on every runner, and the runner without Beam."""
