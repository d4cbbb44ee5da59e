"""From raw texts to tables of events, vectors, chains and more, and a page to explore them."""
