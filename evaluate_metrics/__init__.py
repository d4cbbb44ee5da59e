"""Metrics for `evaluate`, one folder each."""
