"""Figures of models, training runs and results."""
