"""Vector search, and ranks of correct answers."""
