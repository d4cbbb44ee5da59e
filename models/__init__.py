"""The methods: flat configuration and modeling files, which are also Hub remote code."""

# Our configurations are registered as soon as this module has run. It runs first, so that this never happens
# in the middle of importing one of our own modules.
from transformers.models.auto import configuration_auto  # noqa: F401
