"""Baselines that stand beside our models in the tables."""
