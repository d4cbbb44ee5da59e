"""Event type induction: clusters of mentions, their names and frames."""
