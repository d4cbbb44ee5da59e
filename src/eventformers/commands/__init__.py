"""The commands of the command line, a file for each group. They only call the Python API."""
