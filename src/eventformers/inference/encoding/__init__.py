"""Readers of texts and events, and shared parts of encoders."""
