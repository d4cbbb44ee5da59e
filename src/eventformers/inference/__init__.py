"""The methods at work on a user's own input."""
