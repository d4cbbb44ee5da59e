"""Dataset builders: raw files as their owners publish them to Parquet."""
