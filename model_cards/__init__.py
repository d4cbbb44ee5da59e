"""Model cards: template and the code that fills it."""
