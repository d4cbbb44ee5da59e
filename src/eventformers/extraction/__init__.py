"""From raw text to events and chains of one protagonist."""
