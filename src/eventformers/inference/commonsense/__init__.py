"""Completion of commonsense graphs, and multiple-choice questions."""
