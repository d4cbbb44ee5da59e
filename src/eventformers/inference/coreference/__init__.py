"""Events of different texts, or of one, that are the same event."""
