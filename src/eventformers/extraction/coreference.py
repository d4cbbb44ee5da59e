"""Coreference within an English text by rules: names and their variants, titles, appositions and copulas,
repeated definite nouns, pronouns.

Mentions are found in the parse and its entities. Names of one person, organisation or place come together
first, over the whole text; other mentions follow in their order. A pronoun goes to the entity of highest
salience among those that agree with it (after Lappin and Leass, Computational Linguistics 1994), the first
person within quotations to their speaker. A pronoun that more than one entity could stand for has no answer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from eventformers.extraction.actor_kinds import FEMALE, KIND_OF_ENTITY, MALE, kind_of_name, kind_of_noun
from eventformers.extraction.grammar import LINKED, SUBJECTS, child_of
from eventformers.extraction.lexicon import lexicon
from eventformers.extraction.quotations import SPEECH, quotations_of

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span, Token

_WORDS = lexicon("coreference")
# fmt: off
PRONOUN_FORMS = _WORDS.he | _WORDS.she | _WORDS.it | _WORDS.they | _WORDS.first
_ARGUMENTS = SUBJECTS | {
    "dobj", "obj", "iobj", "dative", "pobj", "poss", "attr", "appos", "conj", "agent", "oprd", "ROOT",
    "npadvmod", "obl", "nmod", "dep",
}
# fmt: on
_FARTHEST = 3
"""Sentences before that of a pronoun in which it looks for an entity."""
_FARTHEST_NOUN = 30
_MOST = 40
"""Most entities and mentions that are compared with one, so that time is linear in the length of a text."""
_MARGIN, _MARGIN_OF_THINGS = 1.3, 2.0
"""Least ratio between the two highest saliences: the entity is unsure below it."""
_LEAST, _LEAST_OF_THINGS = 1.5, 2.6
"""Least salience."""
_SALIENCE = {
    **dict.fromkeys(SUBJECTS, 4.0),
    **dict.fromkeys(("dobj", "obj", "agent"), 2.0),
    "poss": 1.5,
    "pobj": 1.2,
}


class _Mention(NamedTuple):
    """A mention by its head.

    Args:
        end: the token after its last one.
        words: the words of a name in lower case; empty without a name.
    """

    head: Token
    start: int
    end: int
    sentence: int
    words: tuple[str, ...] = ()


class Entity:
    """What mentions of a text stand for.

    Args:
        kind: one of `KINDS`; "" if a name has none.
        name: the longest name, in lower-case words; empty without a name.
    """

    def __init__(self, kind: str = "", name: tuple[str, ...] = ()) -> None:
        self.kind, self.name = kind, name
        self.mentions: list[_Mention] = []
        self.nouns: set[str] = set()
        self.gender = ""
        self.is_plural = False


def _gender_of_noun(word: str) -> str:
    return "m" if word in MALE else "f" if word in FEMALE else ""


class _Resolution:
    """The entities of one text."""

    def __init__(self, doc: Doc) -> None:
        self.doc = doc
        self.quotations = quotations_of(doc)
        self.entity_at: dict[int, Entity] = {}
        self.entities: list[Entity] = []
        self._of_noun: defaultdict[str, list[Entity]] = defaultdict(list)
        self._recent: list[Entity] = []

    def resolve(self) -> list[Entity]:
        """Find the entities, in the order of their first mentions."""
        mentions = list(_mentions(self.doc))
        self._join_names([one for one in mentions if one.words])
        for mention in mentions:
            head = mention.head
            if head.lower_ in _WORDS.first:
                continue
            entity: Entity | None
            if mention.words:
                entity = self.entity_at[head.i]
            elif head.lower_ in _WORDS.relative:
                entity = self._antecedent(head)
            elif head.lower_ in PRONOUN_FORMS and head.tag_ in ("PRP", "PRP$"):
                entity = self._of_pronoun(mention)
                if entity is not None and not entity.gender:
                    entity.gender = (
                        "m" if head.lower_ in _WORDS.he else "f" if head.lower_ in _WORDS.she else ""
                    )
            else:
                entity = self._of_description(mention)
            if entity is not None:
                self._add(entity, mention)
        for mention in mentions:
            # Their speaker may be named after them.
            entity = self._speaker(mention.head) if mention.head.lower_ in _WORDS.first else None
            if entity is not None and _is_person(entity):
                entity.mentions.append(mention)
        return [entity for entity in self.entities if entity.mentions]

    def _speaker(self, token: Token) -> Entity | None:
        """The one who speaks in the quotation around a word."""
        number = self.quotations.around(token)
        speaker = None if number is None else self.quotations.speaker(number)
        return None if speaker is None else self.entity_at.get(speaker.i)

    def _new(self, kind: str, name: tuple[str, ...] = ()) -> Entity:
        entity = Entity(kind, name)
        self.entities.append(entity)
        return entity

    def _add(self, entity: Entity, mention: _Mention) -> None:
        entity.mentions.append(mention)
        head = mention.head
        self.entity_at[head.i] = entity
        if entity in self._recent:
            self._recent.remove(entity)
        self._recent.append(entity)
        if len(self._recent) > _MOST:
            del self._recent[0]
        if mention.words:
            for token in self.doc[head.left_edge.i : head.i]:
                word = token.lower_
                if token.dep_ in ("compound", "amod", "nmod") and token.head.i == head.i:
                    if kind_of_noun(token) == "person" and entity.kind in ("person", ""):
                        entity.kind = "person"
                        self._add_noun(entity, token)
                    elif word in MALE or word in FEMALE:
                        entity.gender = entity.gender or _gender_of_noun(word)
        elif head.lower_ not in PRONOUN_FORMS:
            self._add_noun(entity, head)
        if head.dep_ in SUBJECTS and head.head.lemma_ == "be" and child_of(head.head, {"neg"}) is None:
            linked = child_of(head.head, LINKED)
            if linked is not None and linked.pos_ == "NOUN" and _agree(entity, linked):
                self._add_noun(entity, linked)

    def _add_noun(self, entity: Entity, noun: Token) -> None:
        lemma = noun.lemma_.lower()
        if lemma not in entity.nouns:
            entity.nouns.add(lemma)
            self._of_noun[lemma].append(entity)
        entity.gender = entity.gender or _gender_of_noun(lemma)

    # Names

    def _join_names(self, mentions: list[_Mention]) -> None:
        """Give mentions of names their entities: the longest names first, then their shorter forms."""
        of_words: defaultdict[tuple[str, ...], list[_Mention]] = defaultdict(list)
        for mention in mentions:
            of_words[mention.words].append(mention)
        entities: dict[tuple[str, ...], Entity] = {}
        by_word: defaultdict[str, list[Entity]] = defaultdict(list)
        first: dict[Entity, int] = {}
        for words in sorted(of_words, key=len, reverse=True):
            same = of_words[words]
            counts = Counter(kind_of_name(mention.head) for mention in same)
            kind = max(counts, key=lambda kind: (bool(kind), counts[kind]))
            if not kind and (described := kind_of_noun(same[0].head)) != "other":
                # "the King", "Princess"
                kind = described
            found = [one for one in by_word[words[-1]][:_MOST] if _is_variant(words, kind, one, same)]
            # "Felt" is the one of this name that the text has introduced.
            found = [one for one in found if first[one] < same[0].head.i] or found
            entity = found[0] if len(found) == 1 else None
            if entity is None:
                entity = self._new(kind, words)
                first[entity] = same[0].head.i
                if kind in ("person", ""):
                    is_male, is_female = words[0] in _WORDS.male_names, words[0] in _WORDS.female_names
                    entity.gender = "m" if is_male else "f" if is_female else _gender_of_noun(words[-1])
                initials = "".join(word[0] for word in words if word not in _WORDS.initials)
                for word in {words[0], words[-1], initials}:
                    by_word[word].append(entity)
            first[entity] = min(first[entity], same[0].head.i)
            entities[words] = entity
        for mention in mentions:
            self.entity_at[mention.head.i] = self._by_title(mention, entities[mention.words], by_word)

    def _by_title(self, mention: _Mention, entity: Entity, by_word: dict[str, list[Entity]]) -> Entity:
        """Clinton in "Mrs Clinton", where a text has two of this name."""
        if len(mention.words) > 1 or mention.start == 0:
            return entity
        gender = _gender_of_noun(self.doc[mention.start - 1].lower_) or (
            _gender_of_noun(self.doc[mention.start].lower_)
        )
        if gender and entity.gender not in ("", gender):
            found = [one for one in by_word[mention.words[0]] if one.gender == gender]
            return found[0] if len(found) == 1 else self._new(entity.kind, mention.words)
        return entity

    # Descriptions

    def _of_description(self, mention: _Mention) -> Entity:
        """The entity of a common noun: of its apposition or copula, of an earlier one, or a new one."""
        head = mention.head
        kind = kind_of_noun(head)
        if (entity := self._linked(mention)) is not None and _agree(entity, head):
            return entity
        definite = any(child.lower_ in _WORDS.definite for child in head.lefts if child.dep_ == "det")
        if definite and (entity := self._repeated(mention)) is not None:
            return entity
        entity = self._new(kind)
        entity.is_plural = head.tag_ in ("NNS", "NNPS")
        return entity

    def _linked(self, mention: _Mention) -> Entity | None:
        """The named entity that a noun describes: "Tony Blair, the prime minister", "Blair is the leader"."""
        head = mention.head
        for child in head.rights:
            if child.dep_ == "appos" and (named := self.entity_at.get(child.i)) is not None and named.name:
                return named
        if head.dep_ == "appos":
            return self.entity_at.get(head.head.i)
        if head.dep_ == "attr" and any(child.lower_ == "the" for child in head.lefts):
            subject = child_of(head.head, SUBJECTS)
            is_fact = head.head.lemma_ == "be" and child_of(head.head, {"neg", "aux"}) is None
            return self.entity_at.get(subject.i) if subject is not None and is_fact else None
        return None

    def _repeated(self, mention: _Mention) -> Entity | None:
        head = mention.head
        others = self._of_noun.get(head.lemma_.lower(), [])[-_MOST:]
        near = [one for one in others if mention.sentence - one.mentions[-1].sentence <= _FARTHEST_NOUN]
        near = [one for one in near if one.mentions[-1].head.i != head.i and _agree(one, head)]
        if not near or any(child.dep_ in ("prep", "relcl", "acl") for child in head.rights):
            return None
        words = _modifiers(head)
        before = (
            {
                word.lower_
                for one in entity.mentions[:_MOST]
                for word in self.doc[one.head.left_edge.i : one.head.i]
            }
            for entity in near
        )
        fitting = [one for one, known in zip(near, before, strict=True) if words <= known]
        named = [one for one in fitting if one.name]
        if named:
            return named[0] if len(named) == 1 else None
        return (
            fitting[-1]
            if len(fitting) == 1 or (fitting and fitting[-1].mentions[-1].sentence + 2 >= mention.sentence)
            else None
        )

    # Pronouns

    def _of_pronoun(self, mention: _Mention) -> Entity | None:
        head = mention.head
        form = head.lower_
        speaker = self._speaker(head)
        if form in _WORDS.it and _is_pleonastic(head):
            return None
        if form in _WORDS.reflexive and head.dep_ != "appos":
            subject = child_of(_verb_of(head), SUBJECTS)
            entity = None if subject is None else self.entity_at.get(subject.i)
            return entity if entity is not None and _fits(entity, form) else None
        local = _local_subjects(head)
        scores: list[tuple[float, int, Entity]] = []
        for entity in self._recent:
            if entity is not speaker and _fits(entity, form):
                score = self._salience(entity, mention, local)
                if score:
                    scores.append((score, len(scores), entity))
        if not scores:
            return None
        scores.sort(reverse=True)
        best, _, entity = scores[0]
        margin = _MARGIN if form in _WORDS.he or form in _WORDS.she else _MARGIN_OF_THINGS
        if speaker is None and self.quotations.around(head) is not None:
            margin *= _MARGIN
        if entity.kind == "other" and not entity.name:
            margin *= _MARGIN
        least = _LEAST_OF_THINGS if entity.kind == "other" else _LEAST
        if entity.name and entity.gender:
            least /= 3
        if best < least or (len(scores) > 1 and best < margin * scores[1][0]):
            return None
        return entity

    def _antecedent(self, relative: Token) -> Entity | None:
        """The entity of the noun before a relative clause."""
        verb = _verb_of(relative)
        while verb.dep_ in ("conj", "xcomp", "ccomp") and verb.head.i > relative.i:
            verb = verb.head
        return self.entity_at.get(verb.head.i) if verb.dep_ == "relcl" and verb.head.i < relative.i else None

    def _salience(self, entity: Entity, pronoun: _Mention, local: set[int]) -> float:
        """The salience of an entity for a pronoun, by its mentions in the sentences before; 0 if the grammar
        keeps them apart."""
        score, token = 0.0, pronoun.head
        form = token.lower_
        is_subject = token.dep_ in SUBJECTS
        for mention in entity.mentions[: -_MOST - 1 : -1]:
            head = mention.head
            distance = pronoun.sentence - mention.sentence
            if distance > _FARTHEST:
                break
            if head.i >= token.i:
                continue
            if distance == 0 and _excluded(head, token):
                return 0.0
            role = head.head if head.dep_ == "conj" else head
            weight = _SALIENCE.get(role.dep_, 1.0)
            if head.i in local:
                weight += 5
            if is_subject and role.dep_ in SUBJECTS:
                weight += 1 + 2 * (token.head.lemma_ in SPEECH and role.head.lemma_ in SPEECH)
            if head.lower_ in PRONOUN_FORMS:
                weight += distance == 0
            score += weight * 0.5**distance
        if entity.name and entity.kind:
            score *= 1.2
        if form in _WORDS.he or form in _WORDS.she:
            if not entity.gender:
                score *= 0.8
            if entity.kind != "person":
                score *= 0.4
        elif form in _WORDS.they:
            score *= 1.3 if entity.kind == "group" else 1 if entity.is_plural else 0.5
        return score


def _mentions(doc: Doc) -> Iterator[_Mention]:
    for number, sentence in enumerate(doc.sents):
        for token in sentence:
            if token.pos_ == "PRON":
                if token.lower_ in PRONOUN_FORMS or token.lower_ in _WORDS.relative:
                    yield _Mention(token, token.i, token.i + 1, number)
            elif token.pos_ in ("NOUN", "PROPN"):
                if token.ent_type_ and token.ent_type_ not in KIND_OF_ENTITY and token.pos_ == "NOUN":
                    continue
                start, end = _name_bounds(token)
                words = words_of_name(name_in(doc[start:end]))
                if words and (token.ent_type_ or token.dep_ in _ARGUMENTS):
                    yield _Mention(token, start, end, number, words)
                elif (
                    token.pos_ == "NOUN"
                    and token.dep_ in _ARGUMENTS
                    and token.lemma_.lower() not in _WORDS.general
                ):
                    start, end = _noun_bounds(token)
                    yield _Mention(token, start, end, number)


def _name_bounds(head: Token) -> tuple[int, int]:
    """The place of the name that ends in a head word; empty without one."""
    start, end = head.i, head.i + 1
    if head.ent_type_ in KIND_OF_ENTITY:
        while start > head.sent.start and head.doc[start].ent_iob_ == "I":
            start -= 1
        while end < head.sent.end and head.doc[end].ent_iob_ == "I":
            end += 1
        is_head = not start <= head.head.i < end or head.head.i == head.i
        return (start, end) if is_head else (end, end)
    if head.tag_ not in ("NNP", "NNPS") or head.ent_type_ or not head.shape_.startswith("X"):
        return end, end
    while start > head.sent.start and head.nbor(start - 1 - head.i).tag_ == "NNP":
        if head.doc[start - 1].head.i != head.i:
            break
        start -= 1
    return start, end


def _noun_bounds(head: Token) -> tuple[int, int]:
    start = head.i
    for child in reversed(list(head.lefts)):
        if child.dep_ in ("punct", "cc", "conj", "appos"):
            break
        start = child.left_edge.i
    return start, head.i + 1


def name_in(span: Span) -> list[str]:
    """The words of a mention that are its name, without title, article, possessive ending and legal form."""
    words = [token.text for token in span if not (token.is_space or token.like_num or token.is_punct)]
    while words and (words[0].lower() in _WORDS.not_in_names or words[0].lower() in _WORDS.titles):
        del words[0]
    while words and words[-1].lower() in _WORDS.not_in_names:
        words.pop()
    if len(words) > 1 and words[-1].lower() in _WORDS.companies:
        words.pop()
    return words


def words_of_name(words: Iterable[str]) -> tuple[str, ...]:
    """The words of a name in lower case; the usual name of a state that has several."""
    name = " ".join(word.lower() for word in words)
    return tuple(_WORDS.aliases.get(name, name).split())


def _is_variant(words: tuple[str, ...], kind: str, entity: Entity, mentions: list[_Mention]) -> bool:
    """True if a name can be a shorter form of that of an entity: "Mark Felt" or "Felt" of "W. Mark Felt",
    "Red Sox" of "Boston Red Sox", "Apple" of "Apple Computer", "AP" of "Associated Press"."""
    name = entity.name
    if len(name) == 1:
        return False
    if entity.kind == "person":
        if len(words) > 1:
            first = words[0].rstrip(".")
            return words[-1] == name[-1] and any(word.startswith(first) for word in name[:-1])
        is_place = any(one.head.dep_ == "pobj" and one.head.head.lower_ in _WORDS.placing for one in mentions)
        return words[0] in (name[0], name[-1]) and not (kind == "place" and is_place)
    if words[0] == "".join(word[0] for word in name if word not in _WORDS.initials):
        return len(words) == 1 and len(words[0]) > 1
    if entity.kind != "organisation" or kind not in ("organisation", ""):
        return False
    # Teams have plural names.
    is_end = words == name[-len(words) :] and (len(words) > 1 or words[0].endswith("s"))
    return is_end or words == name[: len(words)]


def _modifiers(noun: Token) -> frozenset[str]:
    """The words before a noun that tell it from others of its kind."""
    return frozenset(
        child.lower_ for child in noun.lefts if child.dep_ in ("amod", "compound", "nummod", "poss", "nmod")
    )


def _is_person(entity: Entity) -> bool:
    is_name = not entity.kind and (len(entity.name) > 1 or bool(entity.gender))
    return (entity.kind == "person" or is_name) and not entity.is_plural


def _agree(entity: Entity, noun: Token) -> bool:
    """True if a noun can describe an entity."""
    kind, plural = kind_of_noun(noun), noun.tag_ in ("NNS", "NNPS")
    if entity.is_plural != plural:
        return False
    if entity.name and entity.kind and entity.kind != kind:
        return False
    gender = _gender_of_noun(noun.lemma_.lower())
    return not (gender and entity.gender and gender != entity.gender)


def _fits(entity: Entity, form: str) -> bool:
    """True if a pronoun agrees with an entity in person, number and gender."""
    if form in _WORDS.he or form in _WORDS.she:
        return _is_person(entity) and entity.gender in ("", "m" if form in _WORDS.he else "f")
    if form in _WORDS.it:
        return entity.kind != "person" and not entity.is_plural and not entity.gender
    return entity.is_plural or entity.kind in ("group", "organisation")


def _verb_of(token: Token) -> Token:
    """The verb or noun of the clause that a word belongs to."""
    return next((one for one in token.ancestors if one.pos_ in ("VERB", "AUX")), token.sent.root)


def _local_subjects(pronoun: Token) -> set[int]:
    """The subject of the clause of a possessive, which it mostly goes to: "citizens criticised their
    king"."""
    if pronoun.dep_ != "poss":
        return set()
    verb = _verb_of(pronoun)
    for _ in range(5):
        subject = child_of(verb, SUBJECTS)
        if subject is not None:
            return {subject.i} if subject.i < pronoun.i else set()
        if verb.dep_ not in ("xcomp", "pcomp", "conj", "advcl", "prep", "acl") or verb.head.i == verb.i:
            break
        verb = verb.head if verb.dep_ != "pcomp" else verb.head.head
    return set()


def _excluded(head: Token, pronoun: Token) -> bool:
    """True if the grammar keeps an earlier word and a pronoun apart: "he saw him", "the king of his land"."""
    word = pronoun
    while (
        word.head.i != word.i and word.head.pos_ not in ("VERB", "AUX") and word.dep_ not in ("conj", "relcl")
    ):
        word = word.head
        if word.i == head.i:
            return True
    if pronoun.dep_ == "poss":
        return False
    verb = _verb_of(pronoun)
    # Both depend on one verb.
    return _verb_of(head).i == verb.i and head.dep_ != "poss"


def _is_pleonastic(it: Token) -> bool:
    """True for "it" that stands for nothing: "it rains", "it is clear that", "it seems"."""
    if it.dep_ == "expl":
        return True
    verb = it.head
    if it.dep_ not in SUBJECTS or verb.pos_ not in ("VERB", "AUX"):
        return False
    lemma = verb.lemma_
    if lemma in ("seem", "appear", "rain", "snow", "turn", "take", "happen"):
        return True
    clauses = {"ccomp", "csubj", "xcomp", "advcl", "relcl"}
    linked = child_of(verb, LINKED)
    if lemma == "be" and linked is not None:
        return child_of(verb, clauses) is not None or child_of(linked, clauses) is not None
    return it.dep_ != "nsubj" and child_of(verb, {"ccomp", "xcomp"}) is not None


def resolve(doc: Doc) -> list[list[Span]]:
    """Resolve the names, nouns and pronouns of a parsed English text.

    Returns:
        The mentions of each entity, in order; also of those with one mention.
    """
    return [
        [doc[mention.start : mention.end] for mention in entity.mentions]
        for entity in _Resolution(doc).resolve()
    ]
