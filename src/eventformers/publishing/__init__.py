"""Publishing on the Hub: the plan of a push, its files, and loading back. `eventformers.hub` is the API."""
