"""One run of a plan, as every runner makes it; and the runner that needs no Beam."""
