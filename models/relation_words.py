"""The relations of commonsense graphs in words, and the names that replace the persons of ATOMIC."""

import re
from collections.abc import Mapping

CONCEPTNET: dict[str, tuple[str, str]] = {
    "AtLocation": ("located or found at or in or on", "is the position of"),
    "CapableOf": ("is or are capable of", "is a skill of"),
    "Causes": ("causes", "because"),
    "CausesDesire": ("makes someone want", "because"),
    "CreatedBy": ("is created by", "create"),
    "DefinedAs": ("is defined as", "is known as"),
    "DesireOf": ("desires", "is desired by"),
    "Desires": ("desires", "is desired by"),
    "HasA": ("has, possesses, or contains", "is possessed by"),
    "HasFirstSubevent": ("begins with the event or action", "is the beginning of"),
    "HasLastSubevent": ("ends with the event or action", "is the end of"),
    # No template of this relation was published; this one follows HasPainIntensity.
    "HasPainCharacter": ("causes pain character of", "is the pain character caused by"),
    "HasPainIntensity": ("causes pain intensity of", "is the pain intensity caused by"),
    "HasPrerequisite": ("to do this, one requires", "is the prerequisite of"),
    "HasProperty": ("can be characterized by being or having", "is the property of"),
    "HasSubevent": ("includes the event or action", "is included by"),
    "InheritsFrom": ("inherits from", "hands down to"),
    "InstanceOf": ("is an example or instance of", "include"),
    "IsA": ("is a", "includes"),
    "LocatedNear": ("is located near", "is located near"),
    "LocationOfAction": ("is acted at the location of", "is the location for acting"),
    "MadeOf": ("is made of", "make up of"),
    "MotivatedByGoal": ("is a step towards accomplishing the goal", "motivate"),
    "NotCapableOf": ("is not or are not capable of", "is not a skill of"),
    "NotDesires": ("do not desire", "is not desired by"),
    "NotHasA": ("does not have, possess, or contain", "is not possessed by"),
    "NotHasProperty": ("can not be characterized by being or having", "is not the property of"),
    "NotIsA": ("is not a", "does not include"),
    "NotMadeOf": ("is not made of", "is not used to make"),
    "PartOf": ("is a part of", "include"),
    "ReceivesAction": ("can receive or be affected by the action", "affect"),
    "RelatedTo": ("is related to", "is related to"),
    "SymbolOf": ("is a symbol of", "can be represented by"),
    "UsedFor": ("used for", "could make use of"),
}
"""The text after the head, and the text after the tail (MICO, Table 10, and the relations that it omits)."""

ATOMIC: dict[str, tuple[str, str, str]] = {
    "oEffect": ("as a result, PersonY or others will", "PersonY or others will", "because PersonX"),
    "oReact": ("as a result, PersonY or others feel", "PersonY or others feel", "because PersonX"),
    "oWant": ("as a result, PersonY or others want", "PersonY or others want", "because PersonX"),
    "xAttr": ("PersonX is seen as", "PersonX is seen as", "because PersonX"),
    "xEffect": ("as a result, PersonX will", "PersonX will", "because PersonX"),
    "xIntent": ("because PersonX wanted", "PersonX wanted", "as a result PersonX"),
    "xNeed": ("but before, PersonX needed", "PersonX needs", "as a result PersonX"),
    "xReact": ("as a result, PersonX feels", "PersonX feels", "because PersonX"),
    "xWant": ("as a result, PersonX wants", "PersonX wants", "because PersonX"),
}
"""The text after the head, the text before the tail, and the text after the tail (MICO, Table 9)."""

_NAMES = {"x": "John", "y": "Tom"}
_PERSON = re.compile(r"\b[Pp]erson ?([XYxy])\b")
_BLANK = "___"


def atomic_text(text: str) -> str:
    """Replace PersonX by John and PersonY by Tom in a text of ATOMIC, and remove the mark of a blank.

    The spaces around the mark stay: "PersonX wears ___ to school" becomes "John wears  to school", as in the
    files of InductivE.
    """
    if _BLANK in text:
        text = text.replace(_BLANK, "")
    # Most texts have no placeholder, and the search by pattern costs far more than this test.
    if "erson" in text:
        text = _PERSON.sub(lambda match: _NAMES[match[1].lower()], text)
    return text


PREMISES: dict[str, dict[str, dict[str, str]]] = {
    "conceptnet": {
        relation: {"forward": f"{{head}} {of_head}", "reverse": f"{{tail}} {of_tail}"}
        for relation, (of_head, of_tail) in CONCEPTNET.items()
    },
    "atomic": {
        relation: {
            "forward": atomic_text(f"{{head}}. {of_head}"),
            "reverse": atomic_text(f"{before} {{tail}}. {of_tail}"),
        }
        for relation, (of_head, before, of_tail) in ATOMIC.items()
    },
}
"""The premises with a slot of each relation, by graph and direction."""


def premise(head: str, relation: str, own: Mapping[str, Mapping[str, str]] | None = None) -> str:
    """Write a head and a relation as a premise in words; an unknown relation is an error.

    Args:
        head: the head; with `~` before the relation, the tail.
        relation: a relation of ConceptNet or ATOMIC, in any case; with `~` before it, the premise asks for
            heads.
        own: `relation_templates` of a model, which come first.
    """
    own = own or {}
    patterns: dict[str, Mapping[str, str]] = {**PREMISES["conceptnet"], **PREMISES["atomic"], **own}
    by_lower = {known.lower(): known for known in patterns}
    name = relation.strip().removeprefix("~").strip().lower()
    if name not in by_lower:
        raise ValueError(f"unknown relation {relation[:200]!r}; accepted: {', '.join(by_lower.values())}")
    known = by_lower[name]
    direction, slot = ("reverse", "{tail}") if relation.strip().startswith("~") else ("forward", "{head}")
    text = patterns[known][direction].replace(slot, head)
    return text if known in CONCEPTNET and known not in own else atomic_text(text)
