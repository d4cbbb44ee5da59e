"""The pipeline `next-event`, which ranks choices by how well they continue a chain of events."""

import torch
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence
from transformers.pipelines.base import ChunkPipeline

from .event_items import checked_list, checked_mapping, shown
from .pipeline_event_embedding import EventReader, given, in_order

_ACCEPTED = (
    'an object such as {"context": ["police chased thief"], "choices": ["thief ran", "rain fell"]}, with '
    "texts or events in both lists"
)


class NextEventPipeline(EventReader, ChunkPipeline):
    """Ranks choices by their mean cosine with the events of the context.

    A graph model (HeterEvent) reads the context as one chain.

    Example:
        pipe = pipeline("next-event", model=name)
        pipe({"context": ["police chased thief"], "choices": ["thief ran", "rain fell"]})
    """

    def _sanitize_parameters(self, choices=None, top_k: int | None = None, **kwargs):
        return given(choices=choices), {}, given(top_k=top_k)

    def preprocess(self, question, choices=None):
        question = checked_mapping(question, _ACCEPTED)
        if "context" not in question:
            raise ValueError(f"found the keys {shown(list(question))}; accepted: {_ACCEPTED}")
        context = checked_list(question["context"], "context", "text or event")
        choices = checked_list(question.get("choices", choices), "choices", "text or event")
        rows = self.read([*context, *choices])
        for place, row in enumerate(rows):
            choice = choices[place - len(context)] if place >= len(context) else None
            yield {**row, "choice": choice, "is_last": place == len(rows) - 1}

    def _forward(self, rows):
        if self.reads_roles:
            found = self.model.base_model.encode_events(**self.model_arguments(rows))
            vectors = {"events": found.events, "words": found.words, "event_words": found.event_words}
        else:
            vectors = {"events": self.embed(rows)}
        return {**vectors, "choice": rows["choice"], "is_last": rows["is_last"]}

    def postprocess(self, outputs, top_k: int | None = None):
        choices = [output["choice"] for output in outputs if output["choice"] is not None]
        events = torch.cat([output["events"] for output in outputs])
        left, right = events[: -len(choices)], events[-len(choices) :]
        if self.reads_roles:
            model, device, of_context = self.model.base_model, self.device, outputs[: len(left)]
            words = pad_sequence([output["words"][0] for output in of_context], batch_first=True)
            event_words = pad_sequence(
                [output["event_words"][0] for output in of_context], batch_first=True, padding_value=-1
            )
            chain = torch.arange(len(left), device=device).unsqueeze(0)
            with self.device_placement(), torch.inference_mode():
                states, _ = model.encode_chains(left.to(device), chain)
                nodes = model.encode_graphs(states, chain, words.to(device), event_words.to(device))
                # The nodes of the context's events come first, in their order; each choice is a chain of
                # one event.
                left, right = nodes[: len(left)], model.encode_candidates(right.to(device))
        left, right = (functional.normalize(vectors.double(), dim=-1) for vectors in (left, right))
        return in_order(choices, (left @ right.T).mean(dim=0).tolist(), "choice", top_k)

    def __call__(self, inputs, **kwargs):
        """Rank the choices of a question, or of each of a list.

        Args:
            inputs: `{"context": [...], "choices": [...]}` with texts or events, like rows of the config
                `mcnc`, or a list of such.
            **kwargs: `choices` for questions without their own; `top_k`, number of choices to return;
                `batch_size`, in events.

        Returns:
            For each question its choices, best first: `choice`, `score` (a cosine) and `index`.

        Raises:
            ValueError: a question has other keys, no context or no choices, or an item is not an event.
        """
        return super().__call__(inputs, **kwargs)
