"""The tables of papers, filled with scores of our own."""
