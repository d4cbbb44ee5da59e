"""Training of HeterEvent."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from heterevent_inputs import heterevent_inputs
from safetensors.torch import load_file
from short_runs import assert_equal_weights
from training_case import MethodTrainingCase
from transformers import AutoModel, AutoTokenizer

from eventformers.datasets_scripts.events import event_text
from eventformers.datasets_scripts.loading import load_built
from eventformers.errors import EventformersError
from eventformers.methods import load_method
from eventformers.trainers import chain_rows
from eventformers.trainers.chain_rows import ChainRows, StreamedChains, read_chains, stream_chains
from eventformers.trainers.recipes import list_recipes
from eventformers.trainers.run import resolve_recipe
from eventformers.trainers.stages import stage_recipes
from eventformers.training import FinishedRun

PROTAGONISTS = ("police", "bank", "storm", "house", "judge", "doctor", "team", "company")
PREDICATES = ("arrested", "bought", "destroyed", "closed", "sentenced", "treated", "won", "hired", "saved")
OBJECTS = ("thief", "road", "bridge", "city", "suspect", "patient", "goal", "worker", "car", "")
TERMS = {
    "sequence": {"order_loss", "replacement_loss", "composition_loss"},
    "graph": {"normal_corrupted_loss", "corrupted_corrupted_loss"},
    "supervised": {"word_loss", "event_loss"},
}

WORD_TERMS = {"masked_word_loss"}


class TestHeterEventTraining(MethodTrainingCase):
    method = "heterevent"
    recipe = str(Path(__file__).with_name("quick_heterevent.yaml"))
    loss_terms = tuple(set().union(*TERMS.values(), WORD_TERMS))
    head_fields = {  # noqa: RUF012
        "stage": "supervised",
        "event_dim": 16,
        "chain_dim": 16,
        "predict_from": "neighbours",
        "event_dropout": 0.0,
    }
    # Several words of an event, and several neighbours of it, are one answer each, so their loss cannot be 0.
    fit_fields = {**head_fields, "training_level": "events", "predict_from": "mean"}  # noqa: RUF012
    stream_settings = ("streaming=true", "stages=[sequence]")
    # Chains are numbers of events; what two processes make of their shares, also with FSDP2, is tested
    # in tests/models/test_heterevent_processes.py.
    splits_by_row = False
    without_dropout = ("event_dropout=0.0",)
    bad_settings = (
        ("num_corrupted=0", r"num_corrupted: found 0; accepted: a whole number of 1 or more"),
        ("num_views=1", r"num_views: found 1; accepted: a whole number of 2 or more"),
        ("num_distractors=-1", r"num_distractors: found -1"),
        ("max_chain_length=2", r"max_chain_length: found 2; accepted: a whole number of 3 or more"),
        ("max_seq_length=2", r"max_seq_length: found 2; accepted: a whole number of 3 or more"),
        ("corruption_probability=1.5", r"corruption_probability: found 1\.5"),
        ("min_segment_length=0", r"min_segment_length: found 0; accepted: a whole number of 1 or more"),
        ("segment_order_share=-0.1", r"segment_order_share: found -0\.1"),
        ("target=first", r"unknown setting target 'first'"),
        ("all_windows=2", r"all_windows: found 2"),
        ("validation_rows=3", r"the stage sequence cannot be validated on questions"),
        ("supervised.validation_rows=300", r"a number up to the \d+ questions"),
        ("supervised.validation_rows=-1", r"validation_rows: found -1"),
        ("min_chain_length=40", r"chains|rows"),
        ("learning_rate_decay=-0.5", r"learning_rate_decay: found -0\.5"),
        ("early_stopping_patience=0", r"early_stopping_patience: found 0"),
        ("early_stopping_patience=1", r"early_stopping_patience needs a validation loss"),
        ("contrast_temperature=0", r"contrast_temperature is 0"),
        ("gradient_cache_chunk_size=2", r"gradient_cache_chunk_size"),
    )

    @classmethod
    def write_raw(cls, folder: Path) -> None:
        """40 documents with two chains each, of 5 to 12 events."""
        draws = np.random.default_rng(0)
        lines = []
        for number in range(40):
            events = []
            for protagonist in draws.choice(len(PROTAGONISTS), 2, replace=False):
                for predicate, place in zip(
                    draws.permutation(len(PREDICATES) * 2)[: 5 + number % 8],
                    draws.integers(len(OBJECTS), size=12),
                    strict=False,
                ):
                    name = PREDICATES[predicate % len(PREDICATES)] + (" over" if predicate > 8 else "")
                    roles = [PROTAGONISTS[protagonist], name, OBJECTS[place]]
                    events.append([0, len(events), *roles, name, 0, 0])
            document = {"id": f"d{number}", "source": "bbc", "n_sent": 1, "events": events}
            lines.append(json.dumps(document))
        (folder / "events.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def head_inputs(self, head: Any) -> dict[str, torch.Tensor]:
        return heterevent_inputs(head.config.encoder_config.vocab_size)

    def test_every_loss_term_is_logged(self, finished: FinishedRun) -> None:
        steps = [line for line in finished.run.history if "loss" in line]
        assert len(steps) == 12
        for line, stage in zip(steps, [name for name in TERMS for _ in range(4)], strict=True):
            assert {name for name in line if name.endswith("_loss")} == TERMS[stage]

    @pytest.mark.parametrize("context", ["chain", "event"])
    def test_masked_words_of_a_context(
        self, tiny_encoder: Path, raw: Path, tmp_path: Path, context: str
    ) -> None:
        """A row is a chain, its events between separators, or an event; masks have BERT's shares."""
        tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
        settings = [
            *("stages=[masked_words]", f"context={context}", "masking_probability=0.5"),
            "max_chain_length=4",
        ]
        [recipe] = stage_recipes(resolve_recipe(load_method(self.method), "paper", settings))
        head = load_method(self.method).head_class.from_encoder(str(tiny_encoder), stage="masked_words")
        data = load_method(self.method).training.prepare(recipe, str(raw), tokenizer, head, 0)
        rows = [data.train[place] for place in range(40)]
        batch = data.collator(rows)
        again = data.collator(rows[7:9])
        labels, ids = batch["masked_token_ids"], batch["input_ids"]
        whole = torch.where(labels >= 0, labels, ids)
        chains = [[event_text(event) for event in data.collator.chains.events(row["events"])] for row in rows]
        texts = [text for chain in chains for text in chain]
        if context == "chain":
            texts = [" [SEP] ".join(chain) for chain in chains]
            width = again["input_ids"].shape[1]
            assert torch.equal(again["input_ids"], ids[7:9, :width])
            assert width < ids.shape[1] < 32
        expected = tokenizer(texts, padding=True, return_tensors="pt")
        assert torch.equal(whole, expected["input_ids"])
        assert torch.equal(batch["attention_mask"], expected["attention_mask"])
        chosen = labels >= 0
        assert not torch.isin(labels[chosen], torch.tensor(tokenizer.all_special_ids)).any()
        content = ~torch.isin(whole, torch.tensor(tokenizer.all_special_ids))
        assert (chosen.sum() / content.sum()).item() == pytest.approx(0.5, abs=0.05)
        masks = ids[chosen] == tokenizer.mask_token_id
        assert masks.float().mean().item() == pytest.approx(0.8, abs=0.05)

    @pytest.mark.parametrize("lora", [False, True], ids=["plain", "lora"])
    def test_masked_words_come_before_the_other_stages(
        self, tiny_encoder: Path, raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lora: bool
    ) -> None:
        """The next stage starts from the encoder, without the layer of the prediction; also resumed."""
        recipe = tmp_path / "words.yaml"
        text = Path(self.recipe).read_text(encoding="utf-8")
        recipe.write_text(text.replace("stages:\n", "stages:\n  - name: masked_words\n"), encoding="utf-8")
        monkeypatch.setattr(type(self), "recipe", str(recipe))
        settings = ("stages=[masked_words, supervised]",)
        whole = self.run(tiny_encoder, raw, tmp_path / "whole", settings, lora=lora)
        for line in whole.stages[0].history[:-1]:
            assert {name for name in line if name.endswith("_loss")} == WORD_TERMS
        assert not any("masked_words" in name for name in whole.model.state_dict())
        saved = load_file(tmp_path / "whole" / "stages" / "1-masked_words" / "model.safetensors")
        started = AutoModel.from_pretrained(tiny_encoder).state_dict()
        prefix = "heterevent.encoder."
        moved = [name for name in started if not started[name].equal(saved.get(prefix + name, started[name]))]
        # Adapters leave the embeddings as they are.
        assert ("embeddings.word_embeddings.weight" in moved) != lora
        assert any("attention" in name for name in moved)
        self.assert_resumed(
            whole, tmp_path / "whole", tiny_encoder, tmp_path / "killed", raw, settings=settings, lora=lora
        )

    def test_streaming_in_every_stage(self, tiny_encoder: Path, raw: Path, tmp_path: Path) -> None:
        """With distractors, and continued in the last stage."""
        settings = ("streaming=true", "num_distractors=2")
        whole = self.run(tiny_encoder, raw, tmp_path / "whole", settings)
        assert [stage.name for stage in whole.stages] == list(TERMS)
        self.assert_resumed(
            whole, tmp_path / "whole", tiny_encoder, tmp_path / "killed", raw, settings=settings
        )

    def test_streamed_rows_are_the_rows(self, raw: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Blocks of chains have the windows of all chains, also of events that the pool lacks."""
        monkeypatch.setattr(chain_rows, "POOL_CHAINS", 4)
        monkeypatch.setattr(chain_rows, "_BLOCK_STREAMED", 5)
        chains = load_built(raw, "chains", builder="event_chains")["train"]
        rows = ChainRows(read_chains(chains.select_columns(["events"])), 9, all_windows=True)
        stream, pool = stream_chains(chains.to_iterable_dataset(), 0, 9, all_windows=True)
        assert pool.num_chains == 4
        events = StreamedChains(pool)

        def keys(store: Any, row: Any) -> tuple[str, str]:
            return tuple(str(store.events(row[name])) for name in ("events", "chain_events"))

        drawn = list(itertools.islice(stream, 1500))
        numbered = events.numbered(drawn, substitutes=True)
        found = {keys(events, row) for row in numbered}
        assert found == {keys(rows, rows[place]) for place in range(len(rows))}
        # Equal texts have equal readings, in the pool and beyond it.
        everything = np.unique(np.concatenate([row["chain_events"] for row in numbered]))
        assert everything.max() >= len(pool.reading)
        texts = [event_text(event, "subject_predicate_object") for event in events.events(everything)]
        pairs = set(zip(texts, events.reading[everything].tolist(), strict=True))
        assert len(pairs) == len({text for text, _ in pairs}) == len({code for _, code in pairs})

    def test_streaming_reads_no_documents(self, tiny_encoder: Path, raw: Path, tmp_path: Path) -> None:
        with pytest.raises(EventformersError, match=r"accepted with it: document_share=0\.0"):
            self.run(tiny_encoder, raw, tmp_path, ("streaming=true", "document_share=0.5"))

    def test_too_few_rows_for_a_share_are_told(
        self, tiny_encoder: Path, raw: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        self.run(tiny_encoder, raw, tmp_path / "enough", ("document_share=0.5",))
        assert "times each" not in caplog.text
        self.run(tiny_encoder, raw, tmp_path / "few", ("document_share=0.01",))
        assert re.search(r"0\.01 .* with 61 chains, 60 windows of documents: .* 20 times each", caplog.text)

    def test_accuracy_on_questions_chooses_the_model(
        self, tiny_encoder: Path, raw: Path, tmp_path: Path
    ) -> None:
        settings = (
            *("stages=[supervised]", "validation_rows=3", "validation_share=0.4", "max_steps=6"),
            *("metric_for_best_model=choice_accuracy", "greater_is_better=true"),
            "early_stopping_patience=1",
        )
        run = self.run(tiny_encoder, raw, tmp_path, (*settings, "learning_rate=0.0"))
        lines = [line for line in run.history if "eval_loss" in line]
        # Nothing is learned at a rate of 0, so the second validation is no better than the first.
        assert [line["step"] for line in lines] == [2, 4]
        assert run.steps == 4
        assert lines[0]["eval_choice_accuracy"] in (0.0, pytest.approx(1 / 3), pytest.approx(2 / 3), 1.0)
        again = self.run(tiny_encoder, raw, tmp_path, (*settings, "learning_rate=0.0"), resume=True)
        assert again.steps == 4
        assert_equal_weights(again, run)

    def test_rates_descend_exponentially(self, tiny_encoder: Path, raw: Path, tmp_path: Path) -> None:
        run = self.run(
            tiny_encoder,
            raw,
            tmp_path,
            (
                *("stages=[graph]", "learning_rate_decay=0.5", "num_train_epochs=2", "max_steps=-1"),
                "per_device_train_batch_size=16",
            ),
        )
        rates = [line["learning_rate"] for line in run.history if "learning_rate" in line]
        ratios = np.array(rates[1:]) / np.array(rates[:-1])
        assert ratios == pytest.approx(0.5 ** (2 / run.steps))

    def test_chains_that_cannot_be_corrupted_are_counted(
        self, tiny_encoder: Path, raw: Path, tmp_path: Path
    ) -> None:
        run = self.run(
            tiny_encoder,
            raw,
            tmp_path,
            (
                "stages=[graph]",
                "max_steps=1",
                "min_chain_length=2",
                "max_chain_length=4",
                "all_windows=false",
            ),
        )
        skipped = run.data["skipped"]
        assert skipped["chain_with_fewer_than_three_events"] > 0
        assert skipped["event_beyond_max_chain_length"] > 0

    def test_recipes_of_the_paper(self) -> None:
        """Section V: N_c 24, N_s and N_g 8, the weights of Eq. 6 and 14, batch 128, clipping at 10."""
        method = load_method(self.method)
        parts = stage_recipes(resolve_recipe(method, "paper"))
        assert [part.model["stage"] for part in parts] == ["masked_words", "sequence", "graph", "supervised"]
        # Section III-B1 fine-tunes on the texts of chains.
        assert (parts[0].views["context"], parts[0].views["masking_probability"]) == ("chain", 0.15)
        assert parts[1].views["corruption_probability"] == 0.2
        for part in parts:
            config = method.config_class(**part.model)
            assert config.predict_from == "neighbours"
            assert (config.num_graph_layers, config.edge_drop, config.feature_mask) == (3, 0.2, 0.2)
            assert config.order_weight == config.replacement_weight == 0.4
            assert config.composition_weight == 0.2
            assert (config.normal_corrupted_weight, config.corrupted_corrupted_weight) == (0.7, 0.3)
            views = part.views
            assert (views["num_corrupted"], views["num_segments"], views["num_views"]) == (24, 8, 8)
            assert part.training["per_device_train_batch_size"] == 128
            assert part.training["max_grad_norm"] == 10
            assert part.training["weight_decay"] == 1e-5

    def test_variants_differ_from_the_paper_in_what_they_are_named_after(self) -> None:
        method = load_method(self.method)
        recipes = {name: resolve_recipe(method, name) for name in list_recipes(self.method)}
        paper = recipes["paper"]
        levels = {"w": "words", "e": "events", "we": "words_and_events"}
        for level, value in levels.items():
            [only] = stage_recipes(recipes[f"heterevent-{level}"])
            assert only.model["training_level"] == value
            if level != "we":
                *before, last = stage_recipes(recipes[f"mulcl-{level}"])
                assert last.model == only.model
                assert last.training == only.training
                assert [part.model["stage"] for part in before] == ["masked_words", "sequence", "graph"]
        for name in ("order", "replacement", "composition", "normal_corrupted", "corrupted_corrupted"):
            recipe = recipes[f"without-{name.replace('_', '-')}"]
            changed = {key: value for key, value in recipe.model.items() if value != paper.model.get(key)}
            assert changed == {f"{name}_weight": 0.0}
            assert recipe.stages == paper.stages
        for hops in (1, 2, 3, 4):
            assert recipes[f"hops-{hops}"].model["num_graph_layers"] == hops
