"""Scores of the next event in a chain."""
