"""The pipeline `event-grounding`, which ranks events for a mention in its context."""

import re
from collections.abc import Mapping

import torch
from transformers.pipelines.base import ChunkPipeline

from .event_tokens import checked_list, checked_mapping, checked_text, longest_input, shown
from .grounding_tokens import EventText, GroundingTokens, MentionText, pair_row
from .loaded_files import check_loaded
from .pipeline_event_embedding import given, in_order

_ACCEPTED = (
    "a text with its mention between [[ and ]], or an object with context_left, mention and context_right, "
    "or with text, start_char and end_char"
)
_MARKED = re.compile(r"\[\[(.+?)\]\]", re.DOTALL)


class EventGroundingPipeline(ChunkPipeline):
    """Ranks candidate events for a mention, with the bi-encoder or the cross-encoder of event grounding.

    Example:
        pipe = pipeline("event-grounding", model=name)
        pipe("The city was hit by [[the flood]].", events=[{"title": "2014 flood", "description": "..."}])
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        check_loaded(self.model, self.tokenizer)
        config = self.model.config
        if not hasattr(config, "mention_tokens"):
            raise ValueError(
                f"found a model of the type {config.model_type}; accepted: event_grounding or "
                "event_grounding_cross"
            )
        self.scores_pairs = not hasattr(self.model, "tower")
        # A pair is as long as both of its parts.
        limits = (config.mention_tokens, config.event_tokens)
        if not self.scores_pairs:
            longest = longest_input(self.tokenizer, config.encoder_config)
            limits = tuple(min(longest, limit) for limit in limits)
        self.tokens = GroundingTokens(self.tokenizer, *limits, read_heading=config.read_heading)

    def _sanitize_parameters(self, events=None, top_k: int | None = None, **kwargs):
        return given(events=events), {}, given(top_k=top_k)

    def preprocess(self, mention, events=None):
        candidates = mention.get("events", events) if isinstance(mention, Mapping) else events
        events = checked_list(candidates, "events", "title, or object with title and description")
        [of_mention] = self.tokens.mentions([_mention_of(mention)]).rows
        of_events = self.tokens.events([_event_of(event) for event in events]).rows
        if self.scores_pairs:
            rows = [(pair_row(of_mention, row), event) for row, event in zip(of_events, events, strict=True)]
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
            found = self.model(ids, mask).logits.float()
        else:
            found = torch.empty((len(ids), self.model.config.projection_dim), device=ids.device)
            for side, chosen in (("mention", ~is_event), ("event", is_event)):
                if chosen.any():
                    found[chosen] = self.model(ids[chosen], mask[chosen], side=side).embeddings.float()
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


def _mention_of(mention) -> MentionText:
    if isinstance(mention, str):
        marked = _MARKED.findall(mention)
        if len(marked) != 1:
            raise ValueError(
                f"found {len(marked)} mentions in {shown(mention)}; accepted: one between [[ and ]]"
            )
        checked_text(mention, "a mention in its context")
        left, _, right = mention.partition(f"[[{marked[0]}]]")
        return MentionText(left, marked[0], right)
    row = checked_mapping(mention, _ACCEPTED)
    if "text" in row:
        text, start, end = checked_text(row["text"], "text"), row.get("start_char"), row.get("end_char")
        if type(start) is not int or type(end) is not int or not 0 <= start < end <= len(text):
            raise ValueError(
                f"found a mention from {shown(start)} to {shown(end)} in a text of {len(text)} characters; "
                "accepted: start_char and end_char within it, end exclusive"
            )
        row = {**row, "context_left": text[:start], "mention": text[start:end], "context_right": text[end:]}
    if not {"context_left", "mention", "context_right"} <= row.keys():
        raise ValueError(f"found the keys {shown(list(row))}; accepted: {_ACCEPTED}")
    checked_text(row["mention"], "mention")
    names = ("context_left", "mention", "context_right", "title", "date")
    return MentionText(*(checked_text(row.get(name), name, may_be_empty=True) for name in names))


def _event_of(event) -> EventText:
    if isinstance(event, str):
        return EventText(checked_text(event, "an event"))
    row = checked_mapping(event, "a title, or an object with title and description")
    names = ("title", "description")
    title, description = (checked_text(row.get(name), name, may_be_empty=True) for name in names)
    checked_text(f"{title} {description}", "the title and description of an event")
    return EventText(title, description)
