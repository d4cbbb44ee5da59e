"""The generated parts of the documentation."""
