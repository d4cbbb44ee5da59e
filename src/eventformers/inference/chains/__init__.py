"""Chains of events: scores of what comes next."""
