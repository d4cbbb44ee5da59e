"""What the card of every method must have."""

from __future__ import annotations

import re

import pytest

from eventformers.errors import DataFormatError, UnknownNameError
from eventformers.methods import all_methods, load_method
from eventformers.model_cards import ModelCard, Snippet, load_method_card

every_method = pytest.mark.parametrize("method", all_methods())


def config_of(method: str, **fields) -> dict[str, object]:
    return load_method(method).config_class(**fields).to_dict()


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
