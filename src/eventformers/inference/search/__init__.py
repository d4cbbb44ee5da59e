"""Search among vectors, and ranks of what is right."""
