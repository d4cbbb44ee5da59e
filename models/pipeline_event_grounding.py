"""The pipeline `event-grounding`, which ranks events for a mention in its context."""

from collections.abc import Mapping

import torch
from transformers.pipelines.base import ChunkPipeline

from .event_items import checked_list
from .pipeline_event_embedding import ProcessorPipeline, given, in_order
from .processing_event_grounding import event_of, mention_of


class EventGroundingPipeline(ProcessorPipeline, ChunkPipeline):
    """Ranks candidate events for a mention, with the bi-encoder or the cross-encoder of event grounding.

    Example:
        pipe = pipeline("event-grounding", model=name)
        pipe("The city was hit by [[the flood]].", events=[{"title": "2014 flood", "description": "..."}])
    """

    needed_field = "mention_tokens"
    accepted_types = "event_grounding or event_grounding_cross"

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.scores_pairs = not hasattr(self.model, "tower")
        self.tokens = self.processor.tokens

    def _sanitize_parameters(self, events=None, top_k: int | None = None, **kwargs):
        return given(events=events), {}, given(top_k=top_k)

    def preprocess(self, mention, events=None):
        candidates = mention.get("events", events) if isinstance(mention, Mapping) else events
        events = checked_list(candidates, "events", "title, or object with title and description")
        [of_mention] = self.tokens.mentions([mention_of(mention)]).rows
        of_events = self.tokens.events([event_of(event) for event in events]).rows
        if self.scores_pairs:
            rows = [
                (self.tokens.pair(of_mention, row), event)
                for row, event in zip(of_events, events, strict=True)
            ]
        else:
            rows = [(of_mention, None), *zip(of_events, events, strict=True)]
        for place, (row, event) in enumerate(rows):
            ids = torch.tensor([row])
            yield {
                "input_ids": ids,
                "attention_mask": torch.ones_like(ids),
                "is_event": torch.tensor([event is not None]),
                "event": event,
                "is_last": place == len(rows) - 1,
            }

    def _forward(self, rows):
        ids, mask, is_event = (rows[name] for name in ("input_ids", "attention_mask", "is_event"))
        if self.scores_pairs:
            found = self.model(ids, mask, return_dict=True).logits.float()
        else:
            found = torch.empty((len(ids), self.model.config.embedding_dim), device=ids.device)
            for side, chosen in (("mention", ~is_event), ("event", is_event)):
                if chosen.any():
                    output = self.model(ids[chosen], mask[chosen], side=side, return_dict=True)
                    found[chosen] = output.embeddings.float()
        return {"found": found, "event": rows["event"], "is_last": rows["is_last"]}

    def postprocess(self, outputs, top_k: int | None = None):
        found = torch.cat([output["found"] for output in outputs])
        if not self.scores_pairs:
            scores = found[1:] @ found[0]
        elif self.model.config.linking_objective == "softmax":
            scores = found[:, 0].double().softmax(dim=0)
        else:
            scores = found[:, 0].double().sigmoid()
        events = [output["event"] for output in outputs if output["event"] is not None]
        return in_order(events, scores.tolist(), "event", top_k)

    def __call__(self, inputs, **kwargs):
        """Rank events for a mention, or for each of a list.

        Args:
            inputs: a text with its mention between `[[` and `]]`; or an object with `context_left`, `mention`
                and `context_right`, or with `text`, `start_char` and `end_char`, optionally also with `title`
                and `date` of its document, and `events`; or a list of such.
            **kwargs: `events` for mentions without their own, each a title or an object with `title` and
                `description`; `top_k`, number of events to return; `batch_size`, in texts.

        Returns:
            For each mention its events, best first: `event` as given, `score` (the dot product, or the
            cross-encoder's probability) and `index`.

        Raises:
            ValueError: a mention or the events are missing, or one of them has no text.
        """
        return super().__call__(inputs, **kwargs)
