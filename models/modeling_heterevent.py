"""HeterEvent: a heterogeneous graph over the events and words of a chain, and MulCL, its pretraining."""

import math
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional
from transformers import initialization as init
from transformers.utils import can_return_tuple

from .chain_losses import mean_cosine
from .configuration_heterevent import HeterEventConfig
from .event_graph import EventGraph, build_event_graph, chains_of_rows, events_of_rows, nodes_at, start_nodes
from .heterevent_layers import (
    ChainEncoder,
    EventComposition,
    SkipProjection,
    TensorComposition,
    mean_pool,
    pool_words,
    predicate_alone,
    words_of_tokens,
)
from .heterevent_stages import (
    EventVectors,
    HeterEventForPreTrainingOutput,
    HeterEventModelOutput,
    MaskedWordHead,
    NeighbourPrediction,
    graph_terms,
    masked_word_terms,
    needed_inputs,
    sequence_terms,
    supervised_terms,
)
from .modeling_base import EventMultipleChoiceOutput, EventPreTrainedModel, EventTextEncoder, layers_of
from .training_head import weighted_sum

if TYPE_CHECKING:
    # Imported so that saving and loading include their code.
    from .pipeline_event_embedding import EventEmbeddingPipeline  # noqa: F401
    from .pipeline_next_event import NextEventPipeline  # noqa: F401
    from .processing_heterevent import HeterEventProcessor  # noqa: F401

_OF_TRAINING = (r"^(next_event|previous_event|word_output)\.weight$", r"^masked_words\.")
"""The training head's own weights, which the other classes skip. Any other unused weight is reported."""


class HeterEventPreTrainedModel(EventPreTrainedModel):
    """Base class of the HeterEvent models."""

    config: HeterEventConfig
    base_model_prefix = "heterevent"

    @torch.no_grad()
    def _init_weights(self, module):
        super()._init_weights(module)
        if isinstance(module, NeighbourPrediction):
            init.eye_(module.weight)
        elif isinstance(module, nn.Linear):
            init.xavier_uniform_(module.weight)
            if module.bias is not None:
                init.zeros_(module.bias)
        elif isinstance(module, MaskedWordHead):
            init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            init.zeros_(module.weight)
        elif isinstance(module, nn.GRU):
            for name, parameter in module.named_parameters(recurse=False):
                if name.startswith("bias"):
                    init.zeros_(parameter)
                else:
                    # The matrix holds three gates; Xavier's bound for one of them.
                    bound = math.sqrt(6 / (parameter.shape[0] // 3 + parameter.shape[1]))
                    init.uniform_(parameter, -bound, bound)
        elif isinstance(module, TensorComposition):
            init.xavier_uniform_(module.tensor)
        elif isinstance(module, EventComposition):
            init.normal_(module.absent_role, std=0.02)
        elif isinstance(module, SkipProjection):
            square = module.weight.shape[0] == module.weight.shape[1]
            (init.eye_ if square else init.orthogonal_)(module.weight)
        elif getattr(module, "gate_bias", None) is not None:
            init.constant_(module.gate_bias, module.gate_start)
        elif isinstance(module, ChainEncoder):
            init.normal_(module.chain_token)
            if module.state_weight is not None:
                # The states join as a small part, so that cosines start near those of the encoder.
                init.constant_(module.state_weight, 0.1)


class HeterEventModel(EventTextEncoder, HeterEventPreTrainedModel):
    """HeterEvent: events composed from tokens, a Bi-GRU over a chain, a graph over its events and words."""

    config: HeterEventConfig
    _keys_to_ignore_on_load_unexpected = _OF_TRAINING

    def __init__(self, config, encoder=None):
        super().__init__(config, encoder=encoder)
        hidden_size = config.encoder_config.hidden_size
        self.composition = EventComposition(
            hidden_size, config.event_dim, config.composition, config.composition_rank
        )
        self.chain_encoder = ChainEncoder(config.event_dim, config.chain_dim, config.event_skip)
        self.event_skip = SkipProjection(hidden_size, config.chain_dim) if config.event_skip else None
        self.word_projection = (
            SkipProjection(hidden_size, config.chain_dim)
            if config.event_skip
            else nn.Linear(hidden_size, config.chain_dim)
        )
        # Its library takes a tenth of the time that the other imports take.
        from .graph_layers import GatedAttentionLayer

        self.graph_layers = nn.ModuleList(
            GatedAttentionLayer(
                config.chain_dim, config.value_projection, config.edge_type_bias, config.gate_bias
            )
            for _ in range(config.num_graph_layers)
        )
        self.train(self.training)
        self.post_init()

    def encode_events(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        role_masks: torch.Tensor | None = None,
        word_index: torch.Tensor | None = None,
    ) -> EventVectors:
        """Encode events, each independently.

        Args:
            input_ids: `(E, L)`.
            attention_mask: `(E, L)`; None if nothing is padded.
            role_masks: tokens of subject, predicate and object, `(E, 3, L)`, bool; None assigns all tokens to
                the predicate, except the special ones at both ends.
            word_index: the word of each token, `(E, L)`, equal numbers for equal words of any event, -1 for
                none; None treats each distinct token as a word, except the special ones.

        Returns:
            Vectors of the events and their words.
        """
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        [(hidden, _)] = self.encode_together([(input_ids, attention_mask)])
        return self._compose(hidden, attention_mask, role_masks, word_index, input_ids)

    def _compose(self, hidden, attention_mask, role_masks, word_index, token_numbers) -> EventVectors:
        if role_masks is None:
            role_masks = predicate_alone(attention_mask, not self.config.is_decoder_only)
        if word_index is None:
            word_index = words_of_tokens(token_numbers, attention_mask, not self.config.is_decoder_only)
        words, event_words = pool_words(hidden, word_index)
        events = self.composition(hidden, role_masks)
        if self.event_skip is not None:
            skipped = self.event_skip(mean_pool(hidden, attention_mask))
            events = torch.cat([events.to(skipped.dtype), skipped], dim=-1)
        return EventVectors(events, self.word_projection(words), event_words)

    def encode_chains(
        self, event_vectors: torch.Tensor, chains: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Run the Bi-GRU over chains (Eq. 2).

        Args:
            event_vectors: `(E, event_vector_dim)`.
            chains: rows of `event_vectors`, `(C, n)`; padded with -1 at the end.

        Returns:
            States of the events, `(C, n, chain_dim)`, and of the chain token, `(C, chain_dim)`.
        """
        return self.chain_encoder(event_vectors, chains)

    def encode_candidates(self, event_vectors: torch.Tensor) -> torch.Tensor:
        """Compute the state of each event as a chain of one event: a candidate is never a node of a graph.

        Args:
            event_vectors: `(E, event_vector_dim)`.

        Returns:
            `(E, chain_dim)`.
        """
        alone = torch.arange(len(event_vectors), device=event_vectors.device).unsqueeze(1)
        states, _ = self.encode_chains(event_vectors, alone)
        return states[:, 0]

    def encode_graphs(
        self,
        states: torch.Tensor,
        chains: torch.Tensor,
        words: torch.Tensor,
        event_words: torch.Tensor,
        graph: EventGraph | None = None,
        kept_edges: torch.Tensor | None = None,
        kept_features: torch.Tensor | None = None,
        num_layers: int | None = None,
    ) -> torch.Tensor:
        """Pass messages over the graphs of all chains at once.

        The initial vector of an event node is the event's state; that of a word node is the mean vector of
        the word over the events of its chain.

        Args:
            states: states of the events, `(C, n, chain_dim)`.
            chains: rows of `words`, `(C, n)`; padded with -1 at the end.
            words: vectors of the words of each event, `(E, W, chain_dim)`.
            event_words: the distinct words of each event, `(E, W)`.
            graph: the graphs, if they are built already.
            kept_edges: edges to keep, `(M,)`; None keeps all.
            kept_features: feature dimensions to keep in each chain's graph, `(C, chain_dim)`; None keeps all.
            num_layers: number of layers to run; None runs all.

        Returns:
            Nodes of all graphs, `(V, chain_dim)`, in the order of the graph.

        Raises:
            ValueError: `num_layers` exceeds the number of layers.
        """
        if graph is None:
            graph = build_event_graph(chains, event_words)
        nodes = start_nodes(states, chains, words, graph)
        if kept_features is not None:
            nodes = nodes * kept_features[graph.node_chain]
        return self.pass_messages(nodes, graph, kept_edges, num_layers)

    def pass_messages(
        self,
        nodes: torch.Tensor,
        graph: EventGraph,
        kept_edges: torch.Tensor | None = None,
        num_layers: int | None = None,
    ) -> torch.Tensor:
        """Run the layers on the nodes of graphs, `(V, chain_dim)` to the same; see `encode_graphs`."""
        depth = self.config.num_graph_layers
        num_layers = depth if num_layers is None else num_layers
        if not 1 <= num_layers <= depth:
            raise ValueError(f"num_layers is {num_layers}; accepted: 1 to {depth}, the layers of this model")
        edge_index, edge_type = graph.edge_index, graph.edge_type
        if kept_edges is not None:
            edge_index, edge_type = edge_index[:, kept_edges], edge_type[kept_edges]
        for layer in self.graph_layers[:num_layers]:
            nodes = layer(nodes, edge_index, edge_type)
        return nodes

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        role_masks: torch.Tensor | None = None,
        chain_index: torch.Tensor | None = None,
        word_index: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs,
    ) -> HeterEventModelOutput:
        """Encode events, in chains or each independently.

        Args:
            input_ids: one event a row, `(batch, length)`.
            attention_mask: `(batch, length)`; None if nothing is padded.
            role_masks: tokens of subject, predicate and object, `(batch, 3, length)`, bool; None assigns all
                tokens to the predicate, except the first and the last, which are special.
            chain_index: the chain of each row, `(batch,)`, the rows of a chain in its order; None makes each
                row a chain.
            word_index: the word of each token, `(batch, length)`, -1 for none; None treats each distinct
                token as a word.
            token_type_ids: `(batch, length)`, for encoders with segments.
            inputs_embeds: token embeddings instead of ids, `(batch, length, hidden_size)`.
            **kwargs: passed on to the encoder, such as `output_hidden_states` and `output_attentions`.
                `return_dict=False` gives a tuple.

        Returns:
            `HeterEventModelOutput`.
        """
        output = self._run_encoder(input_ids, attention_mask, token_type_ids, inputs_embeds, **kwargs)
        hidden = output.last_hidden_state
        attention_mask = self._mask_of_tokens(attention_mask, hidden)
        if attention_mask is None:
            attention_mask = torch.ones(hidden.shape[:2], dtype=torch.long, device=hidden.device)
        token_numbers = input_ids
        if inputs_embeds is not None:
            _, numbers = inputs_embeds.flatten(0, 1).unique(dim=0, return_inverse=True)
            token_numbers = numbers.view(hidden.shape[:2])
        vectors = self._compose(hidden, attention_mask, role_masks, word_index, token_numbers)
        chains, places = chains_of_rows(
            torch.arange(len(hidden), device=hidden.device) if chain_index is None else chain_index
        )
        graph = build_event_graph(chains, vectors.event_words)
        states, chain_embeddings = self.encode_chains(vectors.events, chains)
        nodes = self.encode_graphs(states, chains, vectors.words, vectors.event_words, graph)
        return HeterEventModelOutput(
            embeddings=nodes[graph.event_nodes[places]],
            candidates=self.encode_candidates(vectors.events),
            chain_embeddings=chain_embeddings,
            last_hidden_state=hidden,
            hidden_states=output.hidden_states,
            attentions=output.attentions,
        )


class HeterEventForPreTraining(HeterEventPreTrainedModel):
    """Training head with masked words, SeqCL, GraCL and the supervised losses, one stage at a time.

    The encoder encodes every distinct event of a batch once; chains and their corruptions are indexes into
    its rows. Only the stage of masked words reads the texts of whole chains.
    """

    # Later stages have no use for it.
    _keys_to_ignore_on_load_unexpected = (r"^masked_words\.",)

    def __init__(self, config, encoder=None):
        super().__init__(config)
        self.heterevent = HeterEventModel(config, encoder=encoder)
        self.event_dropout = nn.Dropout(config.event_dropout)
        size = config.chain_dim
        self.masked_words = None
        if config.stage == "masked_words":
            vectors = self.get_input_embeddings().weight.shape[1]
            self.masked_words = MaskedWordHead(config.encoder_config, vectors)
        by_neighbours = config.predict_from == "neighbours"
        self.next_event = NeighbourPrediction(size) if by_neighbours else None
        self.previous_event = NeighbourPrediction(size) if by_neighbours else None
        self.word_output = (
            None
            if config.training_level == "events"
            else nn.Linear(config.encoder_config.hidden_size, size, bias=False)
        )
        self.post_init()

    @classmethod
    def from_encoder(cls, name_or_path, **fields):
        """As in the base class; the prediction of masked words starts from the encoder's own, if it has one.

        Args:
            name_or_path: Hub id or folder of an encoder, or of a model of this suite.
            **fields: `dtype` and fields of the configuration.
        """
        head = super().from_encoder(name_or_path, **fields)
        if head.masked_words is not None:
            head.masked_words.start_from(name_or_path)
        return head

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        role_masks: torch.Tensor | None = None,
        word_index: torch.Tensor | None = None,
        chains: torch.Tensor | None = None,
        stage: str | None = None,
        masked_token_ids: torch.Tensor | None = None,
        order_corrupted: torch.Tensor | None = None,
        replacement_corrupted: torch.Tensor | None = None,
        segments: torch.Tensor | None = None,
        corrupted_segments: torch.Tensor | None = None,
        view_seeds: torch.Tensor | None = None,
        target_events: torch.Tensor | None = None,
        target_position: torch.Tensor | None = None,
        choices: torch.Tensor | None = None,
        event_keys: torch.Tensor | None = None,
        word_keys: torch.Tensor | None = None,
        chain_index: torch.Tensor | None = None,
        return_loss: bool = True,
        **kwargs,
    ) -> HeterEventForPreTrainingOutput:
        """Compute the losses of a stage, or only the vectors if no chains are given.

        Args:
            input_ids: the distinct events of the batch, `(E, L)`; in the stage of masked words the texts of
                chains with masked tokens.
            attention_mask: `(E, L)`; None if nothing is padded.
            role_masks: `(E, 3, L)`, bool; see `HeterEventModel`.
            word_index: `(E, L)`; see `HeterEventModel`.
            chains: rows of `input_ids`, `(C, n)`, padded with -1 at the end; in the supervised stage without
                the left-out event.
            stage: the stage whose losses are computed; None takes the configuration's. Only a head with the
                configured stage `masked_words` has the layer that it needs.
            masked_token_ids: the token that was at each masked place, `(E, L)`; -100 elsewhere.
            order_corrupted: `(C, N, n)`; here and in the next three, a row of -1 only is a missing
                corruption.
            replacement_corrupted: `(C, N, n)`.
            segments: `(C, S, n)`.
            corrupted_segments: `(C, S, N, n)`.
            view_seeds: an integer for each corrupted view of each chain's graph, `(C, G)`.
            target_events: row of the left-out event, `(C,)`.
            target_position: number of events of the chain before it, `(C,)`.
            choices: wrong choices, rows of `input_ids`, `(C, k)`, padded with -1; needed for
                `choice_correct`.
            event_keys: a number from 0 for each event, `(E,)`, equal for equal events on every process; None
                treats all rows as different.
            word_keys: a number from 0 for each word, `(words,)`, equal for equal words on every process; None
                treats the words of different processes as different.
            chain_index: the chain of each row, `(E,)`, if only vectors are requested.
            return_loss: False computes only vectors, whatever other inputs are given. `Trainer` evaluates
                heads with this argument although they have no `labels`.
            **kwargs: `output_hidden_states`, `output_attentions` and `return_dict`; others are passed to the
                encoder if only vectors are computed.

        Returns:
            `HeterEventForPreTrainingOutput`.

        Raises:
            ValueError: an input that the stage needs is missing, or a chain has no event.
        """
        views = {
            "masked_token_ids": masked_token_ids,
            "order_corrupted": order_corrupted,
            "replacement_corrupted": replacement_corrupted,
            "segments": segments,
            "corrupted_segments": corrupted_segments,
            "view_seeds": view_seeds,
            "target_events": target_events,
            "target_position": target_position,
        }
        if not return_loss or (chains is None and all(view is None for view in views.values())):
            kwargs["return_dict"] = True
            output = self.heterevent(input_ids, attention_mask, role_masks, chain_index, word_index, **kwargs)
            return HeterEventForPreTrainingOutput(embeddings=output.embeddings, **layers_of(output))
        stage = self.config.stage if stage is None else stage
        needed = needed_inputs(self.config, stage, {"chains": chains, **views})
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        if stage == "masked_words":
            if self.masked_words is None:
                raise ValueError(
                    "the head has no layer for masked words; accepted: stage='masked_words' in the "
                    "configuration"
                )
            terms = masked_word_terms(self, input_ids, attention_mask, **needed)
            return HeterEventForPreTrainingOutput(loss=terms["masked_word_loss"], **terms)
        chains = needed.pop("chains")
        if stage != "supervised" and bool((chains < 0).all(dim=1).any()):
            raise ValueError("a chain has no event; accepted: chains of at least one event")
        if word_index is None:
            word_index = words_of_tokens(input_ids, attention_mask, not self.config.is_decoder_only)
        with self.heterevent.keeping_layers(input_ids, **kwargs) as layers:
            vectors = self.heterevent.encode_events(input_ids, attention_mask, role_masks, word_index)
        if stage == "sequence":
            terms = sequence_terms(self, vectors, chains, needed)
        elif stage == "graph":
            terms = graph_terms(self, vectors, chains, **needed)
        else:
            tokens = input_ids, word_index
            terms = supervised_terms(
                self, vectors, chains, **needed, tokens=tokens, keys=(event_keys, word_keys), choices=choices
            )
        losses = {name: term for name, term in terms.items() if name.endswith("_loss")}
        return HeterEventForPreTrainingOutput(loss=weighted_sum(losses, self.config), **terms, **layers)


class HeterEventForMultipleChoice(HeterEventPreTrainedModel):
    """Head that chooses a chain's next event by the highest mean cosine with the events of the context."""

    _keys_to_ignore_on_load_unexpected = _OF_TRAINING

    def __init__(self, config, encoder=None):
        super().__init__(config)
        self.heterevent = HeterEventModel(config, encoder=encoder)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        role_masks: torch.Tensor | None = None,
        word_index: torch.Tensor | None = None,
        chains: torch.Tensor | None = None,
        choices: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs,
    ) -> EventMultipleChoiceOutput:
        """Score the choices of each chain, or compute only vectors if neither chains nor choices are given.

        Args:
            input_ids: the distinct events of contexts and choices, `(E, L)`; or, without chains and choices,
                a row for each choice, `(C, k, L)`: the events of the context, then the choice, with a
                separating token after each. All their tokens are predicates.
            attention_mask: of the shape of `input_ids`; None if nothing is padded. A row of padding only is a
                missing choice.
            role_masks: `(E, 3, L)`, bool; see `HeterEventModel`.
            word_index: `(E, L)`; see `HeterEventModel`.
            chains: contexts, rows of `input_ids`, `(C, n)`, padded with -1 at the end.
            choices: rows of `input_ids`, `(C, k)`; padded with -1.
            labels: index of the correct choice, `(C,)`.
            **kwargs: `output_hidden_states`, `output_attentions` and `return_dict`; others are passed to the
                encoder if only vectors are computed.

        Returns:
            `EventMultipleChoiceOutput`: the logits are the mean cosines of a choice with the events of the
            context over the temperature; with an empty context all are 0.

        Raises:
            ValueError: only one of chains and choices is given.
        """
        shape = None
        if chains is None and choices is None and input_ids is not None and input_ids.dim() == 3:
            shape = input_ids.shape[:2]
            input_ids, attention_mask, chains, choices = events_of_rows(input_ids, attention_mask)
        elif chains is None and choices is None:
            kwargs.update(word_index=word_index, return_dict=True)
            output = self.heterevent(input_ids, attention_mask, role_masks, **kwargs)
            return EventMultipleChoiceOutput(embeddings=output.embeddings, **layers_of(output))
        if chains is None or choices is None:
            raise ValueError(f"missing: {'chains' if chains is None else 'choices'}; accepted: both or none")
        model = self.heterevent
        with model.keeping_layers(input_ids, **kwargs) as layers:
            vectors = model.encode_events(input_ids, attention_mask, role_masks, word_index)
        graph = build_event_graph(chains, vectors.event_words)
        states, _ = model.encode_chains(vectors.events, chains)
        nodes = model.encode_graphs(states, chains, vectors.words, vectors.event_words, graph)
        candidates = model.encode_candidates(vectors.events)[choices.clamp(min=0)]
        cosines = mean_cosine(nodes_at(nodes, graph.event_nodes), candidates, chains >= 0)
        logits = (cosines / self.config.contrast_temperature).masked_fill(choices < 0, float("-inf"))
        if shape is not None:
            logits = logits.view(shape)
        loss = None if labels is None else functional.cross_entropy(logits, labels)
        return EventMultipleChoiceOutput(loss=loss, logits=logits, **layers)
