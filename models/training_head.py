"""The forward pass that the training heads share: encode the views, then compute the losses."""

from collections.abc import Callable, Mapping
from inspect import Parameter, Signature, signature
from typing import Any

import torch
from torch import nn
from transformers.utils import ModelOutput, can_return_tuple

from .modeling_base import layers_of


def check_given(subject: str, inputs: Mapping[str, Any]) -> None:
    """Raise a `ValueError` that names the needed and the missing inputs, if there are missing ones.

    Args:
        subject: start of the error message, such as "MICO needs the views".
        inputs: needed inputs by name; None for a missing one, or a tuple with None for one that is missing in
            part.
    """
    parts = {name: value if isinstance(value, tuple) else (value,) for name, value in inputs.items()}
    if missing := [name for name, values in parts.items() if any(value is None for value in values)]:
        raise ValueError(f"{subject} {', '.join(inputs)}; missing: {', '.join(missing)}")


def weighted_sum(terms: Mapping[str, torch.Tensor], config: Any) -> torch.Tensor:
    """Sum loss terms by the names of their output fields: that of `order_loss` has the weight of the
    configuration's field `order_weight`, 1 without the field."""
    return sum(getattr(config, f"{name.removesuffix('_loss')}_weight", 1.0) * terms[name] for name in terms)


def training_forward(
    model_class: type[nn.Module],
    encode_views: Callable[..., dict[str, torch.Tensor]],
    losses_from_views: Callable[..., ModelOutput],
    output_class: type[ModelOutput],
) -> Callable[..., Any]:
    """Make the `forward` of a training head out of its two steps.

    Args:
        model_class: class of the encoder, the head's `base_model`.
        encode_views: method that computes the vectors of the views; it requires masks.
        losses_from_views: method that computes the losses of these vectors.

    Returns:
        A method with the inputs of both steps.
    """
    of_views = dict(list(signature(encode_views).parameters.items())[1:])
    of_losses = dict(list(signature(losses_from_views).parameters.items())[2:])
    of_training = {**of_views, **of_losses}.keys() - signature(model_class.forward).parameters.keys()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        *,
        token_type_ids: torch.Tensor | None = None,
        return_loss: bool = True,
        **inputs,
    ):
        """Compute the training loss, or only the vectors if all inputs are those of the encoder.

        Args:
            input_ids: the first view, `(B, L)`.
            attention_mask: `(B, L)`; None if nothing is padded.
            token_type_ids: not used by the training views: a text is one segment.
            return_loss: False computes only the vectors of the first view, whatever other inputs are given.
                `Trainer` evaluates heads with this argument although they have no `labels`.
            **inputs: the other inputs of `encode_views` and `losses_from_views`; passed to the encoder if
                only vectors are computed. `output_hidden_states` and `output_attentions` return the layers
                for the first view; `return_dict=False` gives a tuple.

        Returns:
            The output of `losses_from_views`.

        Raises:
            ValueError: some views are given, but an input that the configured losses need is missing.
        """
        inputs = {name: value for name, value in inputs.items() if value is not None}
        if not return_loss or of_training.isdisjoint(inputs):
            of_encoder = {name: value for name, value in inputs.items() if name not in of_training}
            of_encoder.update(token_type_ids=token_type_ids, return_dict=True)
            output = self.base_model(input_ids, attention_mask, **of_encoder)
            return output_class(embeddings=output.embeddings, **layers_of(output))
        if attention_mask is None and input_ids is not None:
            attention_mask = torch.ones_like(input_ids)
        inputs.update(input_ids=input_ids, attention_mask=attention_mask)
        with self.base_model.keeping_layers(**inputs) as layers:
            views = self.encode_views(**{name: inputs.get(name) for name in of_views})
        output = self.losses_from_views(views, **{name: inputs.get(name) for name in of_losses})
        return output_class(**output, **layers) if layers else output

    own = signature(forward).parameters
    further = [parameter for name, parameter in {**of_views, **of_losses}.items() if name not in own]
    keywords = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in further]
    *first, last = own.values()
    # A trainer drops the columns of data that the signature does not name.
    forward.__signature__ = Signature(  # type: ignore[attr-defined]
        [*first, *keywords, last], return_annotation=output_class
    )
    return forward
