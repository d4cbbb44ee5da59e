"""A spaCy pipeline that learned a few patterns of sentences in seconds, saved to a folder."""

from __future__ import annotations

import random
from pathlib import Path

import spacy
from parsed_texts import tokens_of
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

_PATTERNS = (
    "The/DT/2/det {n}/NN/3/nsubj {v}/VBD/3/ROOT the/DT/5/det {o}/NN/3/dobj ././3/punct",
    "{p}/NNP/2/nsubj {v}/VBD/2/ROOT the/DT/4/det {o}/NN/2/dobj ././2/punct",
    "{p}/NNP/2/nsubj {v}/VBD/2/ROOT {q}/NNP/2/dobj ././2/punct",
    "The/DT/2/det {n}/NN/4/nsubjpass was/VBD/4/auxpass {d}/VBN/4/ROOT by/IN/4/agent {p}/NNP/5/pobj"
    " ././4/punct",
    "The/DT/2/det {n}/NN/5/nsubj did/VBD/5/aux not/RB/5/neg {b}/VB/5/ROOT the/DT/7/det {o}/NN/5/dobj"
    " ././5/punct",
    "{p}/NNP/2/nsubj {i}/VBD/2/ROOT to/IN/2/prep the/DT/5/det {o}/NN/3/pobj ././2/punct",
    "{p}/NNP/2/nsubj {v}/VBD/2/ROOT the/DT/4/det {o}/NN/2/dobj and/CC/2/cc {i}/VBD/2/conj ././2/punct",
    "{p}/NNP/2/nsubj wanted/VBD/2/ROOT to/TO/4/aux {b}/VB/2/xcomp the/DT/6/det {o}/NN/4/dobj ././2/punct",
    "He/PRP/2/nsubj {v}/VBD/2/ROOT the/DT/4/det {o}/NN/2/dobj ././2/punct",
    "He/PRP/2/nsubj {v}/VBD/2/ROOT it/PRP/2/dobj ././2/punct",
    "{p}/NNP/2/nsubj {i}/VBD/2/ROOT ././2/punct",
    "The/DT/2/det {n}/NN/3/nsubj was/VBD/3/ROOT a/DT/5/det {n}/NN/3/attr ././3/punct",
)
_WORDS = {
    "n": ("man", "woman", "waiter", "thief", "guest", "doctor", "driver", "girl"),
    "o": ("door", "car", "letter", "house", "table", "window", "bag", "shop"),
    "p": ("Anna", "Peter", "Maria", "Jones", "Smith", "Police"),
    "q": ("Anna", "Peter", "Maria", "Jones"),
    "v": ("opened", "closed", "sold", "cleaned", "painted", "watched", "followed", "called"),
    "d": ("watched", "followed", "called", "arrested", "seen"),
    "b": ("open", "close", "sell", "clean", "paint", "buy"),
    "i": ("went", "ran", "walked", "left", "returned", "drove"),
}
_TEXTS = 240


def save_tiny_parser(folder: Path) -> Path:
    """Train a small tagger and parser on sentences of the patterns, and save the pipeline to `folder`."""
    spacy.util.fix_random_seed(7)
    pipeline = spacy.blank("en")
    tok2vec = {
        "@architectures": "spacy.HashEmbedCNN.v2",
        **{"width": 48, "depth": 2, "embed_size": 500, "window_size": 1, "maxout_pieces": 2},
        **{"subword_features": True, "pretrained_vectors": None},
    }
    pipeline.add_pipe("tok2vec", config={"model": tok2vec})
    listener = {"@architectures": "spacy.Tok2VecListener.v1", "width": 48, "upstream": "*"}
    pipeline.add_pipe(
        "tagger", config={"model": {"@architectures": "spacy.Tagger.v2", "nO": None, "tok2vec": listener}}
    )
    parser = {
        "@architectures": "spacy.TransitionBasedParser.v2",
        **{"state_type": "parser", "extra_state_tokens": False, "hidden_width": 32, "maxout_pieces": 2},
        **{"use_upper": True, "nO": None, "tok2vec": listener},
    }
    pipeline.add_pipe("parser", config={"model": parser})
    teach(pipeline)
    pipeline.to_disk(folder)
    return folder


def teach(pipeline: Language, rounds: int = 8) -> None:
    """Train a fresh pipeline of a tagger and a parser on sentences of the patterns."""
    draw = random.Random(7)  # noqa: S311, no secret
    examples = []
    for number in range(_TEXTS):
        # Two sentences a text, so that the parser learns where one ends.
        patterns = (_PATTERNS[number % len(_PATTERNS)], draw.choice(_PATTERNS))
        rows = []
        for pattern in patterns:
            words = {slot: draw.choice(known) for slot, known in _WORDS.items()}
            start = len(rows)
            rows += [
                (word, tag, start + head, dep) for word, tag, head, dep in tokens_of(pattern.format(**words))
            ]
        words, tags, heads, dependencies = (list(column) for column in zip(*rows, strict=True))
        reference = Doc(pipeline.vocab, words=words, tags=tags, heads=heads, deps=dependencies)
        examples.append(Example(pipeline.make_doc(reference.text), reference))
    optimizer = pipeline.initialize(lambda: examples)
    optimizer.learn_rate = 0.01
    for _ in range(rounds):
        draw.shuffle(examples)
        for batch in spacy.util.minibatch(examples, 16):
            pipeline.update(batch, sgd=optimizer)
