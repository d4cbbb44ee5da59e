"""The pipeline `commonsense-completion`, which ranks candidates by how well they complete a query."""

import torch
from torch.nn import functional
from transformers.pipelines.base import ChunkPipeline

from .event_items import checked_mapping
from .pipeline_event_embedding import EventReader, given, in_order
from .processing_mico import ACCEPTED_QUESTION, question_texts


class CommonsenseCompletionPipeline(EventReader, ChunkPipeline):
    """Ranks candidates by their cosine with the premise: the head and its relation in words.

    Example:
        pipe = pipeline("commonsense-completion", model=name)
        pipe({"head": "rain", "relation": "Causes", "candidates": ["a flood", "a good mood"]})
    """

    def _sanitize_parameters(self, candidates=None, top_k: int | None = None, **kwargs):
        return given(candidates=candidates), {}, given(top_k=top_k)

    def preprocess(self, query, candidates=None):
        query = checked_mapping(query, ACCEPTED_QUESTION)
        own = getattr(self.model.config, "relation_templates", None)
        asked, texts = question_texts(query, candidates, own)
        rows = self.read([asked, *texts])
        candidates = query.get("alternatives", query.get("candidates", candidates))
        for row, candidate in zip(rows, [None, *candidates], strict=True):
            yield {**row, "candidate": candidate, "is_last": row is rows[-1]}

    def _forward(self, rows):
        return {
            "embeddings": self.embed(rows),
            "candidate": rows["candidate"],
            "is_last": rows["is_last"],
        }

    def postprocess(self, outputs, top_k: int | None = None):
        vectors = functional.normalize(torch.cat([output["embeddings"] for output in outputs]), dim=-1)
        candidates = [output["candidate"] for output in outputs[1:]]
        return in_order(candidates, (vectors[1:] @ vectors[0]).tolist(), "candidate", top_k)

    def __call__(self, inputs, **kwargs):
        """Rank candidates for a query, or for each of a list.

        Args:
            inputs: `{"head", "relation", "candidates"}`, or `{"premise", "candidates"}` with the premise as a
                text, or a list of such. The relation is one of ConceptNet, ATOMIC or the model's own; with
                `~` before it, the candidates are heads.
            **kwargs: `candidates` for queries without their own; `top_k`, number of candidates to return;
                `batch_size`, in texts.

        Returns:
            For each query its candidates, best first: `candidate`, `score` (a cosine) and `index`.

        Raises:
            ValueError: a query has other keys or no candidates, the relation is unknown, or a text has no
                word.
        """
        return super().__call__(inputs, **kwargs)
