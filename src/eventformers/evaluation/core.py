"""Evaluate a model on a task: load, embed, score, and set the untrained encoder's score beside it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal, cast

import numpy as np
import torch

from eventformers.datasets_scripts.events import Event
from eventformers.datasets_scripts.malformed import takes_malformed
from eventformers.errors import EventformersError, shown
from eventformers.evaluate_metrics import load_metric
from eventformers.evaluation.data import ScoredData, describe_data, load_data
from eventformers.evaluation.grounding_models import (
    cross_encoder_name,
    embedded_grounding_model,
    grounding_data,
    grounding_model,
    grounding_record,
    task_cross_encoder,
)
from eventformers.evaluation.induction_models import (
    MentionMemory,
    Model,
    ensemble_name,
    ensemble_record,
    ensemble_runs,
    mention_model,
    untrained_settings,
)
from eventformers.evaluation.models import (
    TRAINING_RECORD,
    SharedEncoders,
    encoder_settings,
    start_encoder,
    task_encoder,
    training_record,
    training_seed,
)
from eventformers.evaluation.results import (
    BaselineRecord,
    DatasetRecord,
    TaskResult,
    check_same_data,
    defined_scores,
    result_path,
    write_result,
)
from eventformers.evaluation.tasks import (
    Task,
    check_compares_events,
    get_task,
    reranked,
    with_chain_settings,
    with_grounding_settings,
    with_induction_settings,
)
from eventformers.evaluation.tasks.chain_protocols import ChainProtocol, ChainSettings
from eventformers.evaluation.tasks.grounding_protocols import (
    GroundingModel,
    GroundingProtocol,
    GroundingSettings,
)
from eventformers.evaluation.tasks.induction_protocols import (
    InductionProtocol,
    InductionSettings,
    MentionModel,
)
from eventformers.evaluation.tasks.protocols import (
    Embed,
    GraphProtocol,
    JsonValue,
    Protocol,
    ProtocolOutput,
    Row,
)
from eventformers.inference.chains.model_scorer import chain_scorer
from eventformers.inference.chains.scorers import ChainScorer, EncoderChainScorer
from eventformers.inference.chains.virtual_context import ContextEncoder, VirtualContext, context_encoder
from eventformers.inference.commonsense.neighbour_votes import VoteSettings, vote_settings
from eventformers.inference.encode import EventEncoder, Vectors
from eventformers.inference.grounding.pair_scoring import CrossEncoder
from eventformers.inference.induction.mention_distances import MentionVectors
from eventformers.locks import one_writer
from eventformers.provenance import git_commit, library_versions


@dataclass(frozen=True)
class Scored:
    """A task's scores for one embedding function.

    Attributes:
        scores: what the metric computed, as JSON can hold it: None for NaN.
        undefined: the reason for each score that is None.
        main_value: the task's main score.
        parts: the metric's scores of the output's parts.
        output: the protocol's output, with one prediction per row.
        seconds: time for embedding and comparing.
    """

    scores: dict[str, JsonValue]
    undefined: dict[str, str]
    main_value: float | None
    parts: dict[str, dict[str, JsonValue]]
    output: ProtocolOutput
    seconds: float


@takes_malformed
def evaluate(
    model: str | Path | EventEncoder | None,
    task: str | Task,
    *,
    data: str | Path | None = None,
    split: str | None = None,
    output: str | Path | None = None,
    baseline_encoder: str | Path | EventEncoder | Literal[False] | None = None,
    pooling: str | None = None,
    event_order: str | None = None,
    device: str | None = None,
    dtype: str | None = None,
    batch_size: int | Literal["auto"] = "auto",
    seed: int | None = None,
    rerank: bool | VoteSettings = False,
    chains: ChainSettings | None = None,
    virtual_context: str | Path | VirtualContext | None = None,
    induction: InductionSettings | None = None,
    grounding: GroundingSettings | None = None,
    clustered_by: Sequence[Model] = (),
    mentions: MentionMemory | None = None,
    overwrite: bool = False,
    shared: SharedEncoders | None = None,
    malformed: str | None = None,
) -> TaskResult:
    """Score a model, or a plain encoder, on a task.

    Args:
        model: folder or Hub id of a model of ours or of any plain encoder, None for the packaged
            all-MiniLM-L6-v2, or an encoder that is loaded.
        task: a name in `TASKS`, or a variant of a task.
        data: folder of raw files, built folder or Hub id of the task's dataset; None takes the bundled
            samples, which are no benchmark.
        split: the split to score; None takes the test split where the data has one.
        output: folder under whose `results/` the result is written; None writes nothing.
        baseline_encoder: the untrained encoder whose score is set beside the model's, with the model's
            pooling and event order; None takes the one that the model's training record names, False leaves
            it out.
        pooling: `cls` or `mean` against the model's own.
        event_order: a key of `EVENT_ORDERS` against the model's own.
        device: a torch device; None chooses.
        dtype: a torch dtype by name; None takes the model's.
        batch_size: events per batch, or `auto`.
        seed: the seed to record; None takes the one of the model's training record. No task draws anything.
        rerank: let training premises vote, in a task that ranks in a graph; their settings, or True for the
            measured ones. The untrained encoder is re-ranked alike.
        chains: how chains are read, in a task that reads them; None takes the default. The untrained encoder
            reads them alike.
        virtual_context: read each event at the end of training chains that share its words, in a task that
            compares events: the data of the chains, or more settings. Only for a model that reads chains; the
            untrained encoder does not.
        induction: how mentions are read and clustered, in a task that clusters them; None takes the default.
            The untrained encoder, which has no queries and keys, is clustered by its vectors, and reads the
            tokens of triggers where the model reads triggers in any way.
        grounding: which mentions are read and how they are linked, in a task that links them; None takes the
            default. The untrained encoder has no re-ranker.
        clustered_by: the runs of an ensemble, by the mean of whose distances such a task clusters mentions in
            place of the model's own; none for no ensemble. The untrained encoder is clustered by itself.
        mentions: keeps the vectors of mentions and events for other evaluations, which only saves time.
        overwrite: replace a result on other rows.
        shared: encoders that this evaluation shares with others, which only saves time: what is loaded, and
            what encoded the same rows just before, is used again. None shares nothing.
        malformed: `skip` leaves out malformed parts of raw files, counts and lists them; `error` raises for
            the first one; None takes the policy in force, `error` where nothing else was set.

    Returns:
        The result, with one prediction per row.

    Raises:
        UnknownNameError: there is no such task.
        DataFormatError: a raw file cannot be read.
        EventformersError: the model, the baseline or the data cannot be loaded, the data lacks the split, a
            vector is not finite, or the place of the result holds one on other rows.
    """
    votes = vote_settings(rerank)
    chosen = get_task(task) if votes is None else reranked(get_task(task), votes)
    chosen = chosen if chains is None else with_chain_settings(chosen, chains)
    chosen = chosen if induction is None else with_induction_settings(chosen, induction)
    chosen = chosen if grounding is None else with_grounding_settings(chosen, grounding)
    if isinstance(virtual_context, (str, Path)):
        virtual_context = VirtualContext(virtual_context)
    if virtual_context is not None:
        check_compares_events(chosen)
    scored_data = load_data(chosen, data, split)
    record = describe_data(chosen, scored_data, data)
    started = time.perf_counter()
    encoder = task_encoder(chosen, model, pooling, event_order, device, dtype, shared)
    runs = ensemble_runs(chosen, clustered_by, encoder, device, dtype, shared) if clustered_by else []
    cross_encoder = task_cross_encoder(chosen, device, dtype)
    load_seconds = time.perf_counter() - started
    usual = record.split == chosen.choose_split(scored_data.splits)
    ways = (votes, chains, virtual_context, induction, grounding)
    chosen_ways = [*(way.name for way in ways if way is not None), ensemble_name(runs) if runs else None]
    chosen_ways.append(cross_encoder_name(cross_encoder) if cross_encoder else None)
    variant = "-".join(filter(None, (pooling, event_order, None if usual else record.split, *chosen_ways)))
    if output is not None and encoder.revision is None:
        raise EventformersError(
            f"the encoder {shown(encoder.name)} has no revision, so its result has no place; accepted: a "
            "model that load_encoder loaded, or no output folder"
        )
    revision = encoder.revision or "unknown"
    path = output and result_path(output, encoder.name, revision, chosen.name, variant)
    with one_writer(path) if path else nullcontext():
        if path and not overwrite:
            # Before the work, not after it.
            check_same_data(path, record.fingerprint)
        training = training_record(model, encoder.revision)
        contexts = None if virtual_context is None else context_encoder(encoder, virtual_context)
        memory = mentions or MentionMemory()
        scored = _score(chosen, encoder, scored_data, batch_size, contexts, memory, runs, cross_encoder)
        baseline, baseline_missing = _baseline(
            chosen,
            scored_data,
            encoder,
            baseline_encoder,
            training,
            device=device,
            dtype=dtype,
            batch_size=batch_size,
            shared=shared,
            mentions=memory,
        )
        result = make_result(
            chosen,
            record,
            scored,
            model=encoder.name,
            model_revision=revision,
            variant=variant,
            baseline=baseline,
            baseline_missing=baseline_missing,
            settings=encoder_settings(encoder, batch_size)
            | _ways_of_reading(chosen, contexts, runs, cross_encoder),
            truncated=encoder.truncated,
            seed=training_seed(training) if seed is None else seed,
            load_seconds=load_seconds,
            shared_texts=encoder.remembered,
            parameters=sum(weights.numel() for weights in encoder.model.parameters()),
        )
        if output is not None:
            write_result(result, output, overwrite=overwrite)
        return result


def score(
    task: Task,
    embed: Embed,
    rows: Iterable[Row],
    other_splits: Mapping[str, Iterable[Row]] | None = None,
    device: torch.device | None = None,
    scorer: ChainScorer | None = None,
    mentions: MentionModel | None = None,
    companions: Mapping[str, Iterable[Row]] | None = None,
    grounding: GroundingModel | None = None,
    split: str = "",
) -> Scored:
    """Score an embedding function, or a scorer of chains, on a task's rows.

    Args:
        task: the task.
        embed: texts and events to vectors, (N, d); each distinct one is asked for once.
        rows: the rows of the task's dataset that are scored.
        other_splits: the rows of its other splits by name, for a task that ranks in a graph or chooses a
            threshold.
        device: where the ranks of such a task are computed; None takes an accelerator where there is one.
        scorer: scores a task that reads chains; None takes the embedding function for it.
        mentions: the model of a task that clusters mentions; None takes the embedding function on sentences.
        companions: the rows of the task's companion configs by name.
        grounding: the model of a task that links mentions; None takes the embedding function on their texts.
        split: the name of the scored split, to tell whether a threshold is chosen on it.

    Raises:
        EventformersError: no rows, a column is missing, a vector is not finite, or the metric refuses the
            values.
    """
    started = time.perf_counter()
    if task.chain_settings is not None:
        chosen = scorer or EncoderChainScorer(embed, aggregation=task.chain_settings.aggregation)
        output = cast(ChainProtocol, task.protocol)(chosen, rows)
    elif task.induction_settings is not None:
        model = mentions or MentionModel(embed, partial(_sentence_vectors, embed))
        frames = [row for held in (companions or {}).values() for row in held]
        output = cast(InductionProtocol, task.protocol)(model, rows, frames)
    elif task.grounding_settings is not None:
        data = grounding_data(rows, companions or {}, other_splits or {}, split)
        output = cast(GroundingProtocol, task.protocol)(grounding or embedded_grounding_model(embed), data)
    elif task.ranks_in_graph:
        output = cast(GraphProtocol, task.protocol)(embed, rows, other_splits or {}, device)
    else:
        output = cast(Protocol, task.protocol)(embed, rows)
    return measure(task, output, time.perf_counter() - started)


def measure(task: Task, output: ProtocolOutput, seconds: float) -> Scored:
    """Apply a task's metric to what a protocol gave.

    Args:
        task: the task.
        output: the metric's inputs and the predictions.
        seconds: how long it took to make them.

    Raises:
        EventformersError: the metric refuses the values.
    """
    metric = load_metric(task.metric, keep_in_memory=True)
    try:
        computed = metric.compute(**output.inputs)
        parts = {name: defined_scores(metric.compute(**inputs))[0] for name, inputs in output.parts.items()}
    except ValueError as error:
        raise EventformersError(f"{task.metric}: {error}") from error
    scores, undefined = defined_scores(computed)
    value = scores[task.main_score]
    return Scored(
        scores=scores,
        undefined=undefined,
        main_value=float(value) if isinstance(value, (int, float)) else None,
        parts=parts,
        output=output,
        seconds=seconds,
    )


def make_result(
    task: Task,
    record: DatasetRecord,
    scored: Scored,
    *,
    model: str,
    model_revision: str,
    settings: dict[str, JsonValue],
    variant: str = "",
    baseline: BaselineRecord | None = None,
    baseline_missing: str | None = None,
    truncated: int = 0,
    seed: int | None = None,
    load_seconds: float = 0.0,
    shared_texts: int = 0,
    parameters: int | None = None,
) -> TaskResult:
    """Put a task's scores together with where they come from; arguments as in `TaskResult` and its timing."""
    return TaskResult(
        task=task.name,
        model=model,
        model_revision=model_revision,
        variant=variant,
        main_score=task.main_score,
        main_value=scored.main_value,
        scores=scored.scores,
        undefined=scored.undefined,
        baseline=baseline,
        baseline_missing=baseline_missing,
        dataset=record,
        settings=settings,
        truncated=truncated,
        seed=seed,
        timing={
            "load_seconds": round(load_seconds, 4),
            "seconds": round(scored.seconds, 4),
            "items": record.rows,
            "items_per_second": round(record.rows / scored.seconds, 2),
            "texts": scored.output.texts,
            "distinct_texts": scored.output.distinct_texts,
            "shared_texts": shared_texts,
        },
        versions=library_versions(),
        git_commit=git_commit(),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        predictions=scored.output.predictions,
        parts=scored.parts,
        details=scored.output.details,
        parameters=parameters,
    )


def _score(
    task: Task,
    encoder: EventEncoder,
    scored_data: ScoredData,
    batch_size: int | Literal["auto"],
    contexts: ContextEncoder | None = None,
    memory: MentionMemory | None = None,
    runs: Sequence[EventEncoder] = (),
    cross_encoder: CrossEncoder | None = None,
) -> Scored:
    def embed(items: Sequence[str | Event]) -> Vectors:
        return (contexts or encoder).encode(items, batch_size=batch_size)

    scorer = None
    if task.chain_settings is not None:
        scorer = chain_scorer(encoder, aggregation=task.chain_settings.aggregation, batch_size=batch_size)
    mentions = None
    if task.induction_settings is not None:
        mentions = mention_model(
            encoder, task.induction_settings, memory or MentionMemory(), batch_size, runs
        )
    linked = None
    if task.grounding_settings is not None:
        linked = grounding_model(encoder, memory or MentionMemory(), batch_size, cross_encoder)
    return score(
        task,
        embed,
        scored_data.rows,
        scored_data.other_splits,
        encoder.model.device,
        scorer,
        mentions,
        scored_data.companion_rows(task),
        linked,
        scored_data.split,
    )


def _sentence_vectors(embed: Embed, mentions: Sequence[Row]) -> MentionVectors:
    return MentionVectors(np.asarray(embed([str(row["text"]) for row in mentions]), dtype=np.float32))


def _ways_of_reading(
    task: Task,
    contexts: ContextEncoder | None = None,
    runs: Sequence[EventEncoder] = (),
    cross_encoder: CrossEncoder | None = None,
) -> dict[str, JsonValue]:
    """How chains, contexts or mentions were read, for the settings of a result."""
    if task.chain_settings is not None:
        return asdict(task.chain_settings)
    if task.induction_settings is not None:
        ensemble = {"clustered_by": ensemble_record(runs)} if runs else {}
        return asdict(task.induction_settings) | ensemble
    if task.grounding_settings is not None:
        return grounding_record(task.grounding_settings, cross_encoder)
    if contexts is None:
        return {}
    return {
        "virtual_context": {
            "retrieved": contexts.retrieved,
            "num_layers": contexts.num_layers,
            "contexts": len(contexts.index.contexts),
            "events_without_context": contexts.without_context,
        }
    }


def _baseline(
    task: Task,
    scored_data: ScoredData,
    encoder: EventEncoder,
    baseline_encoder: str | Path | EventEncoder | Literal[False] | None,
    training: Mapping[str, object] | None,
    *,
    device: str | None,
    dtype: str | None,
    batch_size: int | Literal["auto"],
    shared: SharedEncoders | None,
    mentions: MentionMemory,
) -> tuple[BaselineRecord | None, str | None]:
    """The untrained encoder's record, or the reason why there is none."""
    if baseline_encoder is False:
        return None, "left out on request"
    named = baseline_encoder is not None
    if baseline_encoder is None:
        if training is None:
            return None, "the model has no training record: it is a plain encoder, or its start is unknown"
        if "encoder" not in training:
            return None, f"the model's {TRAINING_RECORD} names no start encoder"
        baseline_encoder = start_encoder(str(training["encoder"]))
    try:
        if isinstance(baseline_encoder, EventEncoder):
            untrained = task_encoder(task, baseline_encoder, None, None, None, None, shared)
        else:
            pooling, event_order = encoder.model.config.pooling, encoder.event_order
            untrained = task_encoder(task, baseline_encoder, pooling, event_order, device, dtype, shared)
    except (EventformersError, OSError) as error:
        if named:
            raise
        # A start encoder that is not at hand must not cost the trained model its score.
        # The message may hold a path of this machine, which a result must not carry elsewhere.
        warnings.warn(f"no baseline: the start encoder cannot be loaded: {error}", stacklevel=3)
        return None, f"the start encoder {Path(str(baseline_encoder)).name} cannot be loaded"
    if task.induction_settings is not None:
        task = with_induction_settings(task, untrained_settings(task.induction_settings, encoder))
    try:
        scored = _score(task, untrained, scored_data, batch_size, memory=mentions)
    except EventformersError as error:
        # Affinity propagation does not settle on every model's distances.
        if task.induction_settings is None or task.induction_settings.method != "affinity":
            raise
        return None, str(error)
    return (
        BaselineRecord(
            model=untrained.name,
            model_revision=untrained.revision or "unknown",
            main_value=scored.main_value,
            scores=scored.scores,
            settings=encoder_settings(untrained, batch_size) | _ways_of_reading(task),
        ),
        None,
    )
