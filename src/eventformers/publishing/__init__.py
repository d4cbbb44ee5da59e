"""Publishing on the Hub: the plan of a push, its files, and verification. `eventformers.hub` is the API."""
