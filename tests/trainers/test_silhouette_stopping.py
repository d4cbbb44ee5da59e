"""The choice of a checkpoint by the silhouette of the unseen mentions."""

from __future__ import annotations

import numpy as np
import pytest
from transformers import TrainerState

from eventformers.errors import EventformersError
from eventformers.inference.induction.clustering import AverageLinkage, silhouette
from eventformers.inference.induction.mention_distances import (
    MentionVectors,
    distances,
    unit_embeddings,
)
from eventformers.trainers.callbacks import (
    UnseenMentions,
    attention_silhouette,
    check_silhouette_settings,
    choose_checkpoint,
    remove_other_checkpoints,
    silhouette_callback,
)


class TestChooseCheckpoint:
    @pytest.mark.parametrize(
        ("values", "window", "expected"),
        [
            # The highest value of all stands alone; the best window is the last.
            ([0.9, 0.0, 0.0, 0.4, 0.5, 0.6], 3, 5),
            # Within the best window the highest value, not the one in the middle.
            ([0.1, 0.2, 0.5, 0.3, 0.4, 0.1, 0.0], 3, 2),
            ([0.1, 0.3, 0.2], 1, 1),
            # Fewer values than a window holds are one window.
            ([0.1, 0.3, 0.2], 5, 1),
            ([0.2], 5, 0),
            # Of equal windows and equal values the first.
            ([0.3, 0.1, 0.2, 0.3, 0.1, 0.2], 3, 0),
            ([-0.5, -0.2, -0.2], 2, 1),
        ],
    )
    def test_best_value_of_the_best_window(self, values: list[float], window: int, expected: int) -> None:
        assert choose_checkpoint(values, window) == expected

    def test_figure_7(self) -> None:
        """Ten epochs: the window around epoch 8 is the best one, and epoch 9 the best in it."""
        values = [0.02, 0.05, 0.06, 0.1, 0.12, 0.14, 0.15, 0.16, 0.19, 0.15]
        assert choose_checkpoint(values, 5) + 1 == 9


def _clouds(seed: int = 0) -> MentionVectors:
    draws = np.random.default_rng(seed)
    centres = np.repeat(draws.normal(size=(4, 8)), 10, axis=0)
    parts = [(centres + noise * draws.normal(size=(40, 8))).astype(np.float32) for noise in (0.3, 0.4, 0.2)]
    return MentionVectors(*parts)


class TestSilhouette:
    @pytest.mark.parametrize("num_clusters", [2, 4, 17, 39])
    def test_as_induction_clusters(self, num_clusters: int) -> None:
        """The clusters of distance `dot` and their silhouette under the encoder's cosines."""
        vectors = _clouds()
        assert vectors.query is not None
        assert vectors.key is not None
        labels = AverageLinkage.of_distances(distances(vectors, "dot")).cut(num_clusters)
        expected = silhouette(unit_embeddings(vectors.embeddings), labels)
        found = attention_silhouette(vectors.query, vectors.key, vectors.embeddings, num_clusters)
        assert found == pytest.approx(expected, abs=1e-5)

    def test_does_not_depend_on_the_order_of_mentions(self) -> None:
        vectors = _clouds()
        mixed = vectors.rows(np.random.default_rng(1).permutation(40))
        values = [
            attention_silhouette(each.query, each.key, each.embeddings, 4)  # type: ignore[arg-type]
            for each in (vectors, mixed)
        ]
        assert values[0] == pytest.approx(values[1], abs=1e-6)

    def test_identical_mentions(self) -> None:
        same = np.ones((5, 3), dtype=np.float32)
        assert attention_silhouette(same, same, same, 2) == pytest.approx(0, abs=1e-6)


class TestSettings:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"silhouette_window": 3, "save_strategy": "no"}, "save_strategy: found 'no'.* epoch or steps"),
            ({"silhouette_window": 3, "save_total_limit": 2}, "save_total_limit: found 2.* null"),
        ],
    )
    def test_refused(self, settings: dict[str, object], message: str) -> None:
        with pytest.raises(EventformersError, match=message):
            check_silhouette_settings(settings)

    def test_accepted(self) -> None:
        check_silhouette_settings({"save_total_limit": 2, "save_strategy": "no"})
        check_silhouette_settings({"silhouette_window": 3, "save_strategy": "steps"})

    @pytest.mark.parametrize(
        ("unseen", "changed", "message"),
        [
            (None, {}, "needs mentions of unseen types"),
            (UnseenMentions([], 9, 0), {}, "0 unseen types in the data; accepted: 2 or more"),
            (UnseenMentions([], 9, 1), {}, "1 unseen types"),
            (UnseenMentions([], 9, 9), {}, "9 unseen mentions for 9 clusters"),
            (UnseenMentions([], 9, 0), {"silhouette_clusters": 12}, "9 unseen mentions for 12 clusters"),
            (UnseenMentions([], 9, 3), {"load_best_model_at_end": True}, "load_best_model_at_end"),
        ],
    )
    def test_nothing_to_choose_by(
        self, unseen: UnseenMentions | None, changed: dict[str, object], message: str
    ) -> None:
        with pytest.raises(EventformersError, match=message):
            silhouette_callback(_Arguments(**changed), unseen)  # type: ignore[arg-type]

    def test_number_of_clusters(self) -> None:
        unseen = UnseenMentions([], 9, 3)
        for asked, expected in ((None, 3), (5, 5)):
            callback = silhouette_callback(_Arguments(silhouette_clusters=asked), unseen)  # type: ignore[arg-type]
            assert callback is not None
            assert callback.num_clusters == expected
        assert silhouette_callback(_Arguments(silhouette_window=None), None) is None  # type: ignore[arg-type]


class _Arguments:
    """Training arguments, as far as they are read."""

    def __init__(self, **changed: object) -> None:
        self.silhouette_window: object = 3
        self.silhouette_clusters: object = None
        self.load_best_model_at_end: object = False
        vars(self).update(changed)


def test_chosen_and_last_checkpoint_stay(tmp_path) -> None:
    for step in (5, 10, 15, 20):
        (tmp_path / f"checkpoint-{step}").mkdir()
    state = TrainerState(global_step=20)
    state.log_history = [
        {"silhouette": value, "step": step} for step, value in ((5, 0.1), (10, 0.4), (15, 0.3))
    ]
    callback = silhouette_callback(_Arguments(silhouette_window=2), UnseenMentions([], 9, 3))  # type: ignore[arg-type]
    assert callback is not None
    chosen = callback.take_checkpoint(tmp_path, state)
    assert chosen == tmp_path / "checkpoint-10"
    assert state.log_history[-1]["chosen_step"] == 10
    remove_other_checkpoints(chosen, 20)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-10", "checkpoint-20"]
