"""The methods: flat configuration and modeling files, which are also Hub remote code."""

# Importing this module registers our configurations. Importing it here, first, keeps that registration
# from running while one of our own modules is half imported.
from transformers.models.auto import configuration_auto  # noqa: F401
