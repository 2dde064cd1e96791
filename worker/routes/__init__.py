"""One module of routes a subject."""
