"""Extraction of events and protagonist chains from raw text."""
