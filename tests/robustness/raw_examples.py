"""Small raw files in every format that the readers accept, beside the bundled samples."""

from __future__ import annotations

import gzip
import json

FRAME = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    '<frame xmlns="http://framenet.icsi.berkeley.edu" name="Running" ID="2">\n'
    "  <definition>&lt;def-root&gt;A &lt;fen&gt;Runner&lt;/fen&gt; moves.\n"
    "&lt;ex&gt;&lt;fex name=&quot;Runner&quot;&gt;She&lt;/fex&gt; ran.&lt;/ex&gt;"
    "&lt;/def-root&gt;</definition>\n"
    '  <FE name="Runner"><definition>someone</definition></FE>\n'
    '  <frameRelation type="Inherits from"><relatedFrame ID="9">Moving</relatedFrame></frameRelation>\n'
    "</frame>\n"
)

NEWSWIRE = (
    '<DOC id="XYZ_ENG_19990101.0001" type="story" >\n<HEADLINE>\nA shop opens\n</HEADLINE>\n<TEXT>\n<P>\n'
    "Anna &amp; Peter opened\nthe shop &LR; .\n</P>\n</TEXT>\n</DOC>\n"
    "<doc id=second type='advis'>\n<text>\nFor editors.\n</text>\n</doc>\n"
)

_ATOMIC_COLUMNS = "event,oEffect,oReact,oWant,xAttr,xEffect,xIntent,xNeed,xReact,xWant,prefix,split\n"


def _atomic_row(event: str, split: str) -> str:
    empty = ",".join(["[]"] * 3)
    return f'{event},{empty},"[""kind"", ""none""]",[],[],[],[],"[""to rest""]","[]",{split}\n'


def _claim(name: str, other: str) -> dict[str, object]:
    value = {"value": {"entity-type": "item", "id": other}, "type": "wikibase-entityid"}
    return {"mainsnak": {"snaktype": "value", "property": name, "datavalue": value}, "rank": "normal"}


def _entity(number: int, claims: dict[str, object]) -> str:
    texts = {"en": {"language": "en", "value": f"Event {number}"}}
    return json.dumps(
        {"type": "item", "id": f"Q{number}", "labels": texts, "descriptions": texts, "claims": claims}
    )


def _json_lines(*rows: object) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


_DATED: dict[str, object] = {"P585": [{}], "P276": [{}]}
_EVENT = {"subject": "police", "predicate": "arrested", "object": "man"}
_MENTION = {"mention_id": "m1", "document_id": "d", "text": "Police arrested a man.", "trigger": "arrested"}
_TEXT = {
    "text": "The river flooded the town.",
    "mention": "flooded",
    "start_char": 10,
    "end_char": 17,
    "language": "en",
}

EXAMPLES: dict[str, dict[str, bytes]] = {
    "atomic_csv": {
        "v4_atomic_all.csv": (
            _ATOMIC_COLUMNS + _atomic_row("PersonX eats", "trn") + _atomic_row('"PersonX runs, fast"', "dev")
        ).encode()
    },
    "atomic_2020": {
        "train.tsv": b"PersonX eats\txWant\tto rest\nPersonX eats\tHinderedBy\tno food\n"
        b"PersonX runs\txWant\tnone\n"
    },
    "cn100k": {"train100k.txt": b"IsA\tdog\tanimal\t3.4\nUsedFor\tcup\tdrink tea\t0\nIsA\tcat\tpet\t1\n"},
    "copa_json": {
        "copa-dev-new.jsonl": _json_lines(
            {
                "sentence": "The man slept. As a result, _",
                "option1": "he rested.",
                "option2": "he ran.",
                "answer": "1",
            },
            {
                "sentence": "It rained. As a result, _",
                "option1": "it dried.",
                "option2": "it got wet.",
                "answer": "2",
            },
        )
    },
    "tuples": {
        "train.txt": b"rescued crew cat from <TUP> fed crew cat _NULL_ <TUP> named boy cat _NULL_\n"
        b"bought boy toy _NULL_ <TUP> lost boy toy _NULL_ <TUP> found dog toy in\n"
    },
    "extracted": {
        "news.jsonl.gz": gzip.compress(
            _json_lines(
                {"id": "a", "events": [[0, 5, "dog", "bites", "man", "bite", False, False]] * 3},
                {
                    "id": "b",
                    "protagonist": "man",
                    "events": [_EVENT, {"predicate": "fled"}, ["he", "hid", ""]],
                },
            )
        )
    },
    "frames_xml": {"frame/Running.xml": FRAME.encode()},
    "mention_table": {
        "xlec-data.tsv": b"Wikidata Item\tWikipedia Language\tWikipedia Title\t"
        b"Wikipedia Inlink Title\tContext\n"
        b'Q5\ten\tFall\tPride\tA "quote <a> great fall </a> came.\n'
        b"Q6\ten\tRise\tPride\tThe <a> rise </a> was slow.\n",
        "label_desc.tsv": b"Wikidata Item\tWikipedia Language\tWikipedia Title\tWikipedia Description\n"
        b"Q5\ten\tFall\tIt fell.\nQ6\ten\tRise\tIt rose.\n",
        "edges.csv": b"child_id,child,relation,parent_id\n5,a,part_of,6\n",
    },
    "entities": {
        "dump.json": (
            "[\n"
            + ",\n".join(
                [
                    _entity(1, {"P361": [_claim("P361", "Q2")], **_DATED}),
                    _entity(2, _DATED),
                ]
            )
            + "\n]\n"
        ).encode()
    },
    "newswire": {
        "news.sgml": NEWSWIRE.encode(),
        "plain.txt": b"A man fled. He hid.\n",
        "web.jsonl": _json_lines(
            {"id": "a", "text": "A dog bit a man."}, {"document_id": "b", "text": "He ran."}
        ),
    },
    "events_jsonl": {
        "events.jsonl": _json_lines({"id": 7, **_EVENT}, {"text": "dog bites man"}, {"event": _EVENT})
    },
    "events_csv": {
        "events.csv": b'id,subject,predicate,object\n1,police,arrested,man\n2,"a ""dog""",bites,\n'
    },
    "events_tsv": {"events.tsv": b"id\ttext\n1\tdog bites man\n2\tpolice arrested man\n"},
    "events_txt": {"events.txt": b"dog bites man\npolice arrested man\n"},
    "candidates_json": {
        "candidates.json": json.dumps([_EVENT, {"subject": "", "predicate": "fled", "object": ""}]).encode()
    },
    "candidates_txt": {"candidates.txt": b"police | arrested | man\nfled\n" + _json_lines(_EVENT)},
    "mentions_jsonl": {
        "mentions.jsonl": _json_lines(_MENTION, {**_MENTION, "mention_id": "m2", "event_type": "Arrest"})
    },
    "mentions_txt": {"mentions.txt": b"Police arrested a man.\nThe river flooded the town.\n"},
    "texts_jsonl": {"texts.jsonl": _json_lines(_TEXT)},
    "texts_txt": {"texts.txt": b"The [[flood]] reached the town.\nThe [[war]] ended.\n"},
    "templates": {
        "templates.yaml": b'Precedes: {forward: "{head} comes before", reverse: "{tail} comes after"}\n'
    },
    "recipe": {
        "mine.yaml": b"description: mine\nextends: demo\ndata:\n  validation_rows: 4\n"
        b"training:\n  learning_rate: 0.001\n  max_steps: 3\n"
    },
    "settings": {"settings.txt": b"training.max_steps=3\nlearning_rate=0.001\nstages=[a, b]"},
}
"""Files of each example by their names."""
