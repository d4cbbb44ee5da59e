"""Event grounding: links from mentions to events of a knowledge base."""
