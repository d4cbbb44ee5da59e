"""Event type induction: clusters of mentions with their names and frames."""
