"""The methods: flat configuration and modeling files, which are also Hub remote code."""

# Registration with the Auto classes imports the models as soon as these modules have run. They run first, so
# that this never happens in the middle of importing one of our own.
from transformers.models.auto import configuration_auto, modeling_auto  # noqa: F401
