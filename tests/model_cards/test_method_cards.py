"""What the card of every method must have, and what it says of a configuration."""

from __future__ import annotations

import re
from typing import Any

import pytest
from card_examples import examples_run
from tiny import save_tiny_heterevent

from eventformers.datasets_scripts.events import event_text
from eventformers.datasets_scripts.relation_templates import relation_templates
from eventformers.errors import DataFormatError, UnknownNameError
from eventformers.methods import all_methods, load_method
from eventformers.model_cards import ModelCard, Snippet, load_method_card
from eventformers.model_cards.card import usage_snippets
from eventformers.model_cards.method import run_snippet
from eventformers.models.configuration_heterevent import HeterEventConfig
from eventformers.models.processing_event_type_induction import Mention, mark_trigger

every_method = pytest.mark.parametrize("method", all_methods())

TRAINING = {
    "swcc": {"learning_rate": 1e-5, "module_learning_rates": {"prototypes": 5e-4}},
    "heterevent": {"learning_rate": 1e-3, "learning_rate_decay": 0.95},
}


def config_of(method: str, **fields: Any) -> dict[str, Any]:
    return load_method(method).config_class(**fields).to_dict()


def told(method: str, training: dict[str, Any] | None = None, **fields: Any) -> dict[str, str]:
    """The parts of a card by name, the code of its first example, and its readings by place."""
    given = TRAINING.get(method, {}) if training is None else training
    parts = load_method_card(method).parts(config_of(method, **fields), given)
    return {
        **{reading.place: reading.here for reading in parts.readings},
        **{name: getattr(parts, name) for name in ("summary", "objective", "text_read")},
        "code": parts.usage[0].code,
    }


def test_a_method_without_a_card_is_told():
    with pytest.raises(UnknownNameError, match="Did you mean 'swcc'"):
        load_method_card("swc")


@pytest.mark.parametrize(
    ("content", "found"), [("paper: P\nurl: U\n", "tags"), ("tag: [a]\n", "'tag'"), ("- a list\n", "list")]
)
def test_a_file_that_is_no_card_is_named(tmp_path, monkeypatch, content, found):
    path = tmp_path / "card.yaml"
    path.write_text(content, encoding="utf-8")
    monkeypatch.setattr(type(load_method("swcc")), "card_path", path)
    with pytest.raises(DataFormatError, match=f"card.yaml.*{found}"):
        load_method_card("swcc")


@every_method
def test_the_paper_is_named_and_cited(method):
    card = load_method_card(method)
    assert card.title == load_method(method).title
    assert card.citation.startswith(("@inproceedings{", "@article{"))
    title = card.paper.rpartition(" (")[0]
    assert title in re.sub(r"[{}]", "", card.citation)
    assert re.sub(r"^https://(aclanthology|doi)\.org/", "", card.url) in card.citation


@every_method
def test_the_papers_settings_are_known_settings(method):
    from eventformers.trainers.run import accepted_keys

    accepted = accepted_keys(load_method(method))
    known = accepted["model"] | accepted["views"] | accepted["training"]
    assert set(load_method_card(method).paper_settings) <= known.keys()


@pytest.mark.parametrize(
    ("method", "other"),
    [("swcc", {"event_order": "subject_predicate_object"}), ("mico", {}), ("heterevent", {})],
)
def test_the_defaults_are_the_papers_settings(method, other):
    config, stated = config_of(method), load_method_card(method).paper_settings
    differing = {name: config[name] for name, value in stated.items() if config.get(name, value) != value}
    assert differing == other


@every_method
def test_a_card_holds_what_the_method_says(method):
    # Where the states of a chain are the vectors, their size is the chain's.
    sizes = [name for name in ("projection_dim", "chain_dim") if name in config_of(method)]
    config = config_of(method, **dict.fromkeys(sizes, 384))
    card = load_method_card(method)
    text = ModelCard(name="m", method=method, config=config, usage=[Snippet("In short", "1")]).to_markdown()
    parts = card.parts(config)
    for said in (parts.summary, parts.text_read, parts.objective, *parts.limits):
        assert said
        assert said in text
    assert "384 numbers" in text
    for reading in parts.readings:
        assert f"| {reading.place} | {reading.paper} | {reading.here} |" in text
    assert all(f"- {tag}\n" in text for tag in ("eventformers", method, *card.tags))


@every_method
def test_every_example_is_code_that_names_the_model(method):
    snippets = load_method_card(method).parts(config_of(method)).usage
    assert len({snippet.title for snippet in snippets}) == len(snippets)
    for snippet in snippets:
        compile(snippet.code.replace("MODEL_ID", "'m'"), snippet.title, "exec")
        assert "MODEL_ID" in snippet.code


BEYOND = "Beyond the paper"
OBJECTIVE_OF_LINKING = "Section 5.1, reduction of the loss"
SAID: list[tuple[str, dict[str, Any], dict[str, str]]] = [
    ("event_type_induction", {"frame_example_weight": 0.5}, {"objective": "**Contrast of frames**"}),
    ("event_type_induction", {"frame_example_weight": 0.5}, {"objective": "Weight `0.5`"}),
    ("event_type_induction", {"frame_example_weight": 0.5}, {BEYOND: "examples of frames are contrasted"}),
    *(
        (method, {"linking_objective": objective}, said)
        for method in ("event_grounding", "event_grounding_cross")
        for objective, said in (
            ("binary", {"objective": "binary cross-entropy of the"}),
            ("binary", {OBJECTIVE_OF_LINKING: "=the mean over all pairs"}),
            ("softmax", {"objective": "not gold", BEYOND: "against all other"}),
            ("softmax", {OBJECTIVE_OF_LINKING: "^the mean over the gold events"}),
        )
    ),
    ("event_grounding_cross", {"linking_objective": "binary"}, {"code": "logits.sigmoid()"}),
    ("event_grounding_cross", {"linking_objective": "binary"}, {"summary": "The sigmoid of the score is"}),
    ("event_grounding_cross", {"linking_objective": "softmax"}, {"code": "logits.softmax(dim=0)"}),
    ("event_grounding_cross", {"linking_objective": "softmax"}, {"summary": "The softmax of the scores"}),
    ("swcc", {"cluster_weight": 0.1}, {"Section 4.1, learning rate of the prototypes": "0.0005"}),
    ("swcc", {"cluster_weight": 0.1}, {"Released code, entropy term": "=left out"}),
    ("swcc", {"prototype_entropy_weight": 0.05}, {"Released code, entropy term": "`0.05`"}),
    ("swcc", {"contrastive_objective": "margin", "margin": 0.25}, {"Table 2, margin loss": "`0.25`"}),
    ("swcc", {"shared_word_weight": 0.5}, {BEYOND: "one-word changes"}),
    ("swcc", {"shared_word_weight": 2.0, "shared_word_co_event_weight": 0.5},
        {"objective": "second positive, with weight `0.5`"}),
    *(
        ("swcc", {"event_order": order},
            {"summary": f"`{text}`", "text_read": f"`{roles}`", "code": f'"{text}"'})
        for order, text, roles in (
            ("subject_predicate_object", "company fired worker", "subject predicate object"),
            ("predicate_first", "fired company worker", "predicate subject object"),
        )
    ),
    ("mico", {}, {"Eq. 6, own other alternatives": "^excluded"}),
    ("mico", {}, {"Eq. 6, alternatives of other rows": "=as in the paper"}),
    ("mico", {}, {"Eq. 5, positive": "^the alternative with the lowest similarity"}),
    ("mico", {}, {"Section 4.4, early stopping": "=no early stopping"}),
    ("mico", {}, {"objective": "its least similar alternative of k"}),
    ("mico", {"own_alternatives": "zero_logit"}, {"Eq. 6, own other alternatives": "a logit of 0 each"}),
    ("mico", {"mask_known_positives": True}, {"Eq. 6, alternatives of other rows": "left out"}),
    ("mico", {"positive": "random"},
        {"Eq. 5, positive": "=a random one", "objective": "a random one of its k"}),
    ("mico", {"feature_dropout": 0.05}, {"Released code, dropout of the vectors": "=`0.05`"}),
    ("mico", {"pooling": "mean"}, {"Eq. 2, pooling": "mean over the tokens of the text"}),
    ("mico", {"frequency_correction": True}, {"objective": "logarithm of an alternative"}),
    ("mico", {"frequency_correction": True}, {BEYOND: "corrected for the frequency"}),
    ("mico", {"frequency_correction": ["conceptnet"]},
        {"objective": "**Frequency correction** of conceptnet, beyond"}),
    ("mico", {"distillation_weight": 2},
        {"objective": "**Distillation**, weight `2`", BEYOND: "held near their initial vectors"}),
    ("heterevent", {"stage": "masked_words"}, {"objective": "masked tokens"}),
    ("heterevent", {"stage": "supervised"}, {"objective": "[W+E]"}),
    ("heterevent", {"stage": "sequence", "order_weight": 0.0}, {"objective": "replacement_weight"}),
    ("heterevent", {"literal_ratio": True}, {"Eq. 3 to 5, 12 and 13": "as printed"}),
    ("heterevent", {}, {"Eq. 3 to 5, 12 and 13": "logarithm", "Section V, optimizer": "`0.95`"}),
    ("heterevent", {"composition": "low_rank"}, {"Eq. 1, sizes": "low rank"}),
    ("heterevent", {"stage": "supervised", "predict_from": "neighbours"},
        {"Eq. 16, prediction of an event": "previous and the next"}),
    ("heterevent", {"event_order": "predicate_first"},
        {"text_read": "`predicate subject object`", "summary": "`searched police house`"}),
    ("heterevent", {"event_order": "predicate_first"}, {"code": "model(**processor(question))"}),
    ("heterevent", {"stage": "supervised", "training_level": "words"}, {"objective": "word_weight"}),
    ("heterevent", {"event_skip": True}, {BEYOND: "added to its state"}),
    ("heterevent", {"gate_bias": -2.0}, {BEYOND: "`-2`"}),
    ("heterevent", {"word_weight": 0.5}, {BEYOND: "words have weight `0.5`"}),
    ("heterevent", {"composition_anchor": "rest"}, {"Eq. 5, anchor": "^the rest of the chain"}),
]  # fmt: skip
UNSAID: list[tuple[str, dict[str, Any], dict[str, str]]] = [
    ("event_type_induction", {}, {"objective": "**Contrast of frames**", BEYOND: "examples of frames"}),
    *(
        (method, {"linking_objective": objective}, unsaid)
        for method in ("event_grounding", "event_grounding_cross")
        for objective, unsaid in (
            ("softmax", {"objective": "binary"}),
            ("binary", {BEYOND: "against all other"}),
        )
    ),
    ("swcc", {"cluster_weight": 0.1, "mlm_weight": 1.0}, {BEYOND: ""}),
    ("swcc", {"shared_word_weight": 2.0, "shared_word_co_event_weight": 0.0},
        {"objective": "second positive"}),
    ("mico", {}, {"Released code, dropout of the vectors": "", BEYOND: ""}),
    ("mico", {}, {"objective": "logarithm of an alternative"}),
    ("mico", {}, {"objective": "**Distillation**"}),
    ("heterevent", {"stage": "sequence", "order_weight": 0.0}, {"objective": "order_weight"}),
    ("heterevent", {"stage": "graph"}, {"Eq. 16, prediction of an event": ""}),
    ("heterevent", {"stage": "supervised", "training_level": "words"}, {"objective": "event_weight"}),
    ("heterevent", {}, {BEYOND: ""}),
]  # fmt: skip


@pytest.mark.parametrize(("method", "fields", "words"), SAID)
def test_what_is_in_use_is_told(method, fields, words):
    card = told(method, **fields)
    for place, text in words.items():
        if text[0] in "=^":
            assert card[place] == text[1:] if text[0] == "=" else card[place].startswith(text[1:])
        else:
            assert text in card[place]


@pytest.mark.parametrize(("method", "fields", "words"), UNSAID)
def test_what_is_not_in_use_is_not_told(method, fields, words):
    card = told(method, **fields)
    for place, text in words.items():
        # Without words: the place itself.
        assert text not in card.get(place, "") if text else place not in card


@pytest.mark.parametrize(
    ("fields", "absent"),
    [
        ({"cluster_weight": 0}, r"Eq\. 7|4\.1|3\.2"),
        ({"mlm_weight": 0}, "masked"),
        ({"contrastive_objective": "info_nce"}, r"Eq\. 6"),
    ],
)
def test_places_of_terms_that_are_off_are_not_in_the_card_of_swcc(fields, absent):
    assert not [place for place in told("swcc", **fields) if re.search(absent, place)]


@pytest.mark.parametrize("normalization", ["min_max", "log_min_max", "constant"])
@pytest.mark.parametrize("objective", ["weakly_supervised", "dropout_views", "info_nce", "margin"])
def test_every_objective_of_swcc_has_words(objective, normalization):
    parts = load_method_card("swcc").parts(
        config_of(
            "swcc",
            contrastive_objective=objective,
            frequency_normalization=normalization,
            prototype_entropy_weight=0.05,
            shared_word_weight=0.5,
        )
    )
    assert parts.objective.count("\n- ") == 5
    assert ("margin `0.5`" in parts.objective) == (objective == "margin")
    assert parts.limits


def test_a_model_of_sentences_alone_says_what_it_used():
    first = "This model is from the stage `sentences` alone"
    assert told("swcc", stage="sentences")["objective"].startswith(first)
    assert first not in told("swcc")["objective"]
    assert "Vectors of sentences" not in told("swcc")["objective"]


def test_the_weights_of_the_joint_stage():
    objective = told("event_grounding", stage="joint", hierarchy_weight=0.25)["objective"]
    linking, hierarchy = objective.split("\n")[2:]
    assert "Weight `1`" in linking
    assert "Weight `0.25`" in hierarchy


def test_the_early_stopping_of_mico_is_told():
    stopped = told("mico", {"stop_at_relative_change": 0.01})
    assert "less than `0.01`" in stopped["Section 4.4, early stopping"]


def test_stages_before_the_last_are_told():
    names = {"sequence": "SeqCL", "graph": "GraCL", "supervised": "Eq. 15 and 16"}
    for number, stage in enumerate(names):
        objective = told("heterevent", stage=stage)["objective"]
        assert [name in objective for name in names.values()] == [place <= number for place in range(3)]


def test_the_constants_of_the_examples_are_as_the_models_read_them():
    constants = load_method_card("event_type_induction").constants
    triggers = ("sentenced", "gave", "opened")
    assert constants["marked_sentences"] == [
        mark_trigger(Mention(text, text.index(trigger), text.index(trigger) + len(trigger))).text
        for text, trigger in zip(constants["sentences"], triggers, strict=True)
    ]
    atomic = relation_templates("atomic").premise("xWant", "PersonX misses the bus", "forward")
    assert (relation_templates("conceptnet").premise("UsedFor", "umbrella", "forward"), atomic) == tuple(
        load_method_card("mico").constants["premises"]
    )


def test_the_example_without_this_package_chooses_as_the_one_with_it(tmp_path, tiny_encoder):
    folder = save_tiny_heterevent(tiny_encoder, tmp_path / "model")
    card = ModelCard(name="m", method="heterevent", config=HeterEventConfig.from_pretrained(folder).to_dict())
    with examples_run():
        ran = [run_snippet(snippet, folder, "m") for snippet in usage_snippets(card)[:2]]
    plain, ours = (str(snippet.output) for snippet in ran)
    scores = {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in ours.splitlines()}
    logits = [float(value) for value in re.findall(r"-?\d+\.\d+", plain)]
    expected = [scores[event_text(event)] for event in load_method_card("heterevent").constants["candidates"]]
    assert [logit / 10 for logit in logits] == pytest.approx(expected, abs=0.0061)
