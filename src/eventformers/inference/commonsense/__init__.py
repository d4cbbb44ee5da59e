"""Commonsense graphs: completion and questions."""
