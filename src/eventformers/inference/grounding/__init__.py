"""Event grounding: mentions linked to events of a knowledge base."""
