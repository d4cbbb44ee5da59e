"""Relations of commonsense graphs in words: a triple becomes a premise and an alternative, both ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from eventformers.datasets_scripts.reading.lines import parse_yaml
from eventformers.errors import EventformersError, UnknownNameError, shown

Direction = Literal["forward", "reverse"]
"""`forward` asks for the tail of a triple, `reverse` for its head."""

DIRECTIONS: tuple[Direction, ...] = ("forward", "reverse")

GRAPHS = ("conceptnet", "atomic")


_SLOTS: dict[str, str] = {"forward": "{head}", "reverse": "{tail}"}
_EXAMPLE = 'MyRelation: {forward: "{head} leads to", reverse: "{tail} follows from"}'
OTHER_RELATIONS = f"; or one of a file given as templates=FILE.yaml, with lines like {_EXAMPLE}"
"""How to add relations, for errors."""


class RelationTemplates:
    """The premise and the alternative of a triple, in both directions (MICO, section 3.2 and appendix A.1).

    A template is the whole premise with a slot: `forward` has the slot of the head and asks for the tail,
    `reverse` has that of the tail and asks for the head. ConceptNet's are `{head} causes` and
    `{tail} because`. ATOMIC's are `{head}. as a result, John wants` and `John wants {tail}. because John`;
    the alternative of the latter is the head without its first word, because the premise already ends with
    that word (a head of one word is kept whole).

    Placeholders in texts of ATOMIC become names (`relation_words.atomic_text`). Blanks are unchanged, also
    double ones, so that texts equal those of the published files.

    Args:
        graph: a member of `GRAPHS`.
        templates: the two premises by relation.
    """

    def __init__(self, graph: str, templates: Mapping[str, Mapping[str, str]]) -> None:
        self.graph = graph
        self._named = _naming(graph)
        self._parts = {
            # The text before the slot, and the text after it.
            (relation, direction): pattern.partition(_SLOTS[direction])[::2]
            for relation, patterns in templates.items()
            for direction, pattern in patterns.items()
        }
        self.relations: tuple[str, ...] = tuple(sorted(templates))
        """The relations that have a template, sorted."""

    def __contains__(self, relation: str) -> bool:
        return (relation, "forward") in self._parts

    def text(self, text: str) -> str:
        """A head or a tail in the form used in premises and alternatives."""
        return self._named(text)

    def premise(self, relation: str, text: str, direction: Direction) -> str:
        """The premise: the head (`forward`) or the tail (`reverse`) with the relation in words.

        Raises:
            UnknownNameError: the relation has no template.
        """
        if (relation, direction) not in self._parts:
            raise UnknownNameError(f"relation of {self.graph}", relation, self.relations, OTHER_RELATIONS)
        before, after = self._parts[relation, direction]
        return f"{before}{self.text(text)}{after}"

    def alternative(self, text: str, direction: Direction) -> str:
        """The alternative: the tail (`forward`) or the head (`reverse`)."""
        text = self.text(text)
        if self.graph == "atomic" and direction == "reverse":
            return text.partition(" ")[2] or text
        return text

    def pair(self, head: str, relation: str, tail: str, direction: Direction) -> tuple[str, str]:
        """The premise and the alternative of a triple.

        Raises:
            UnknownNameError: the relation has no template.
        """
        known, asked = (head, tail) if direction == "forward" else (tail, head)
        return self.premise(relation, known, direction), self.alternative(asked, direction)


def relation_templates(
    graph: str, file: str | Path | None = None, own: Mapping[str, Mapping[str, str]] | None = None
) -> RelationTemplates:
    """Load the templates of a graph's relations.

    Args:
        graph: a member of `GRAPHS`.
        file: a YAML file that adds relations or replaces templates. Each line names a relation and its two
            premises with their slots, such as `Precedes: {forward: "{head} comes before", reverse: "{tail}
            comes after"}`.
        own: the same as a mapping, as a model keeps them; the file comes first.

    Raises:
        UnknownNameError: an unknown graph.
        EventformersError: the file cannot be read or has other content.
    """
    if graph not in GRAPHS:
        raise UnknownNameError("commonsense graph", graph, GRAPHS)
    # Imported here: `eventformers.models` imports transformers, which a list of datasets does not need.
    from eventformers.models.relation_words import PREMISES

    return RelationTemplates(graph, {**PREMISES[graph], **(own or {}), **own_templates(graph, file)})


def own_templates(graph: str, file: str | Path | None) -> dict[str, dict[str, str]]:
    """Read the templates of a file by relation and direction; empty without a file.

    Raises:
        EventformersError: the file cannot be read or has other content.
    """
    if file is None:
        return {}
    file = Path(file).expanduser()
    accepted = f"lines like {_EXAMPLE}"
    try:
        content = parse_yaml(file.read_bytes(), file, accepted)
    except OSError as error:
        raise EventformersError(f"cannot read the templates {file}: {error.strerror or error}") from error
    if not isinstance(content, dict) or not content:
        raise EventformersError(f"{file}: found no relations; accepted: {accepted}")
    templates: dict[str, dict[str, str]] = {}
    for relation, patterns in content.items():
        if not isinstance(relation, str):
            # YAML reads No as false.
            raise EventformersError(
                f"{file}: found the relation {shown(relation)}; accepted: a text, in quotes"
            )
        if not isinstance(patterns, dict) or set(patterns) != set(_SLOTS):
            # A value that nests by references may be too large to print.
            found = (
                f"the keys {shown(list(patterns))}" if isinstance(patterns, dict) else type(patterns).__name__
            )
            raise EventformersError(f"{file}, {shown(relation)}: found {found}; accepted: {accepted}")
        for direction, slot in _SLOTS.items():
            pattern = patterns[direction]
            if not isinstance(pattern, str) or pattern.count(slot) != 1:
                found = shown(pattern) if isinstance(pattern, str) else type(pattern).__name__
                raise EventformersError(
                    f"{file}, {shown(relation)}, {direction}: found {found}; "
                    f"accepted: a text with {slot} once"
                )
        templates[relation] = {direction: _naming(graph)(pattern) for direction, pattern in patterns.items()}
    return templates


def _naming(graph: str) -> Callable[[str], str]:
    """Function that converts a graph's texts: those of ATOMIC get names, others are unchanged."""
    # Imported here: `eventformers.models` imports transformers, which a list of datasets does not need.
    from eventformers.models.relation_words import atomic_text

    return atomic_text if graph == "atomic" else str
