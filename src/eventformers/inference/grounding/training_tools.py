"""The functions of inference that the training of event grounding is handed."""

from __future__ import annotations

from eventformers.inference.grounding.null_threshold import calibrate_bi_encoder, calibrate_cross_encoder
from eventformers.inference.grounding.retrieval import as_retriever, load_retriever
from eventformers.trainers.retrieved_candidates import GroundingTools

GROUNDING_TOOLS = GroundingTools(load_retriever, as_retriever, calibrate_bi_encoder, calibrate_cross_encoder)
