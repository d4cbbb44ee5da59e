"""Readers of texts and events, and what encoders share."""
