"""Relations of commonsense graphs in words: a triple becomes a premise and its alternative, both ways."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import yaml

from eventformers.errors import EventformersError, UnknownNameError

Direction = Literal["forward", "reverse"]
"""`forward` asks for the tail of a triple, `reverse` for its head."""

DIRECTIONS: tuple[Direction, ...] = ("forward", "reverse")

GRAPHS = ("conceptnet", "atomic")

_CONCEPTNET: dict[str, tuple[str, str]] = {
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
    # Ours, by the pattern of HasPainIntensity: no template of this relation was published.
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
"""What follows the head, and what follows the tail (MICO, Table 10, and the relations that it omits)."""

_ATOMIC: dict[str, tuple[str, str, str]] = {
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
"""What follows the head; what stands before the tail, and what follows it (MICO, Table 9)."""

_NAMES = {"x": "John", "y": "Tom"}
_PERSON = re.compile(r"\b[Pp]erson ?([XYxy])\b")
_BLANK = "___"
_SLOTS: dict[str, str] = {"forward": "{head}", "reverse": "{tail}"}
_EXAMPLE = 'MyRelation: {forward: "{head} leads to", reverse: "{tail} follows from"}'


class UnknownRelationError(UnknownNameError):
    """A relation without a template; says which have one, and how to give one."""

    def __init__(self, graph: str, relation: str, known: tuple[str, ...]) -> None:
        super().__init__(f"relation of {graph}", relation, known)
        EventformersError.__init__(
            self, f"unknown relation of {graph} {relation!r}; accepted: {accepted_relations(known)}"
        )


class RelationTemplates:
    """The premise and the alternative of a triple, in both directions (MICO, section 3.2 and appendix A.1).

    A template is the whole premise with a slot: of the head where the tail is asked for (`forward`), of the
    tail where the head is (`reverse`). ConceptNet's are `{head} causes` and `{tail} because`; ATOMIC's are
    `{head}. as a result, John wants` and `John wants {tail}. because John`, and there the alternative of the
    reverse direction is the head without its first word, which the premise ends with already (a head of one
    word stays whole).

    Texts of ATOMIC get names for their placeholders (`atomic_text`). Blanks are kept as they are, double ones
    too, so that texts equal those of the published files.

    Args:
        graph: a member of `GRAPHS`.
        templates: the two premises by relation.
    """

    def __init__(self, graph: str, templates: Mapping[str, Mapping[str, str]]) -> None:
        self.graph = graph
        self._parts = {
            (relation, direction): _parts(pattern, direction)
            for relation, patterns in templates.items()
            for direction, pattern in patterns.items()
        }
        self.relations: tuple[str, ...] = tuple(sorted(templates))
        """The relations that have a template, sorted."""

    def __contains__(self, relation: str) -> bool:
        return (relation, "forward") in self._parts

    def text(self, text: str) -> str:
        """A head or a tail as the premises and alternatives hold it."""
        return atomic_text(text) if self.graph == "atomic" else text

    def premise(self, relation: str, text: str, direction: Direction) -> str:
        """What is asked: the head (`forward`) or the tail (`reverse`) with the relation in words.

        Raises:
            UnknownRelationError: the relation has no template.
        """
        if (relation, direction) not in self._parts:
            raise UnknownRelationError(self.graph, relation, self.relations)
        before, after = self._parts[relation, direction]
        return f"{before}{self.text(text)}{after}"

    def alternative(self, text: str, direction: Direction) -> str:
        """What is answered: the tail (`forward`) or the head (`reverse`)."""
        text = self.text(text)
        if self.graph == "atomic" and direction == "reverse":
            return text.partition(" ")[2] or text
        return text

    def pair(self, head: str, relation: str, tail: str, direction: Direction) -> tuple[str, str]:
        """The premise and the alternative of a triple.

        Raises:
            UnknownRelationError: the relation has no template.
        """
        known, asked = (head, tail) if direction == "forward" else (tail, head)
        return self.premise(relation, known, direction), self.alternative(asked, direction)


def relation_templates(graph: str, file: str | Path | None = None) -> RelationTemplates:
    """The templates of a graph's relations.

    Args:
        graph: a member of `GRAPHS`.
        file: a YAML file that adds relations or replaces templates. Each line names a relation and its two
            premises with their slots, such as
            `Precedes: {forward: "{head} comes before", reverse: "{tail} comes after"}`.

    Raises:
        UnknownNameError: an unknown graph.
        EventformersError: the file cannot be read or holds something else; says what.
    """
    if graph not in GRAPHS:
        raise UnknownNameError("commonsense graph", graph, GRAPHS)
    templates = _conceptnet_templates() if graph == "conceptnet" else _atomic_templates()
    if file is not None:
        templates |= _read_templates(Path(file).expanduser(), graph)
    return RelationTemplates(graph, templates)


def atomic_text(text: str) -> str:
    """A text of ATOMIC with John for PersonX, Tom for PersonY, and without the mark of a blank.

    The blanks around the mark stay: "PersonX wears ___ to school" becomes "John wears  to school", as in the
    files of InductivE.
    """
    if _BLANK in text:
        text = text.replace(_BLANK, "")
    # Most texts hold no placeholder, and the search by pattern costs far more than this one.
    if "erson" in text:
        text = _PERSON.sub(lambda match: _NAMES[match[1].lower()], text)
    return text


def accepted_relations(known: tuple[str, ...]) -> str:
    """The relations that have a template, and how to give others one, for an error."""
    return f"{', '.join(known)}; or one of a file given by templates=FILE.yaml, with lines like {_EXAMPLE}"


def _conceptnet_templates() -> dict[str, dict[str, str]]:
    return {
        relation: {"forward": f"{{head}} {forward}", "reverse": f"{{tail}} {reverse}"}
        for relation, (forward, reverse) in _CONCEPTNET.items()
    }


def _atomic_templates() -> dict[str, dict[str, str]]:
    return {
        relation: {
            "forward": atomic_text(f"{{head}}. {forward}"),
            "reverse": atomic_text(f"{first} {{tail}}. {second}"),
        }
        for relation, (forward, first, second) in _ATOMIC.items()
    }


def _parts(pattern: str, direction: str) -> tuple[str, str]:
    """What stands before the slot of a template, and what after it."""
    before, _, after = pattern.partition(_SLOTS[direction])
    return before, after


def _read_templates(file: Path, graph: str) -> dict[str, dict[str, str]]:
    accepted = f"lines like {_EXAMPLE}"
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise EventformersError(f"cannot read the templates {file}: {error.strerror or error}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise EventformersError(f"{file} is no YAML file ({reason}); accepted: {accepted}") from error
    if not isinstance(content, dict) or not content:
        raise EventformersError(f"{file}: found no relations; accepted: {accepted}")
    templates: dict[str, dict[str, str]] = {}
    for relation, patterns in content.items():
        if not isinstance(patterns, dict) or set(patterns) != set(_SLOTS):
            raise EventformersError(f"{file}, {relation}: found {patterns!r}; accepted: {accepted}")
        for direction, slot in _SLOTS.items():
            pattern = patterns[direction]
            if not isinstance(pattern, str) or pattern.count(slot) != 1:
                raise EventformersError(
                    f"{file}, {relation}, {direction}: found {pattern!r}; accepted: a text with {slot} once"
                )
        templates[str(relation)] = {
            direction: atomic_text(pattern) if graph == "atomic" else pattern
            for direction, pattern in patterns.items()
        }
    return templates
