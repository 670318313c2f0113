"""Turns text into the terms that a search compares: stems of words, and the concepts that phrases stand for."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

# Words, and names of several parts such as FLOW.CHECKPOINT_TORN and missing-checkpoint.
_NAME = re.compile(r"[^\W_]+(?:[._-][^\W_]+)*")
_SEPARATORS = re.compile(r"[._-]")
# The humps of dropDuplicates; a word in capitals is one part.
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_VOWEL = re.compile(r"[aeiouy]")
_SHORTEST_STEM = 3
_APOSTROPHES = str.maketrans("", "", "'\N{RIGHT SINGLE QUOTATION MARK}")
# What a concept is called among the terms; no word begins with it.
_CONCEPT = "~"


@dataclass(frozen=True)
class Word:
    """A word of a text.

    Attributes:
        text: in lower case.
        stem: what it has in common with its other forms.
        is_common: whether every text has it, such as "the", so that it is no term.
    """

    text: str
    stem: str
    is_common: bool = False


def words_of(text: str) -> list[Word]:
    """The words of a text in their order."""
    return [Word(text, _stem(text), text in _common_words()) for text in _texts(text)]


def terms_of(words: Sequence[Word]) -> list[str]:
    """The stems of words, and the concepts of the phrases among them."""
    stems = [word.stem for word in words if not word.is_common]
    concepts = {*_concepts_in(stems), *_concepts_in([word.stem for word in words])}
    return [*stems, *sorted(concepts)]


def is_concept(term: str) -> bool:
    """Whether a term is a concept, not a stem."""
    return term.startswith(_CONCEPT)


def _texts(text: str) -> Iterator[str]:
    for found in _NAME.finditer(text.translate(_APOSTROPHES)):
        yield from _parts(found[0])


@cache
def _parts(name: str) -> tuple[str, ...]:
    """The parts of a name in lower case, and the name as a whole if it has several."""
    parts = [hump.casefold() for part in _SEPARATORS.split(name) for hump in _HUMPS.split(part)]
    return tuple(parts) if len(parts) == 1 else (*parts, name.casefold())


@cache
def _stem(word: str) -> str:
    """A word without its endings: not a root, but equal for the forms of a word."""
    if not word.isalpha() or len(word) <= _SHORTEST_STEM:
        return word
    word = _irregular_forms().get(word, word)
    stem = _without_past(_without_plural(word))
    for ending in _endings():
        if stem.endswith(ending) and len(stem) - len(ending) > _SHORTEST_STEM:
            stem = stem.removesuffix(ending)
            break
    if len(stem) > _SHORTEST_STEM and stem.endswith("ly"):
        stem = stem.removesuffix("ly")
    stem = stem.removesuffix("e") if len(stem) > _SHORTEST_STEM else stem
    return f"{stem[:-1]}i" if stem.endswith("y") else stem


def _without_plural(word: str) -> str:
    for ending, instead in (("sses", "ss"), ("ies", "y"), ("xes", "x"), ("ches", "ch"), ("shes", "sh")):
        if word.endswith(ending):
            return word.removesuffix(ending) + instead
    return word.removesuffix("s") if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def _without_past(word: str) -> str:
    for ending in ("ing", "ed"):
        stem = word.removesuffix(ending)
        if stem != word and len(stem) >= _SHORTEST_STEM and _VOWEL.search(stem):
            is_doubled = stem[-1] == stem[-2] and stem[-1] not in "lsz"
            return stem[:-1] if is_doubled else stem
    return word


def _concepts_in(stems: Sequence[str]) -> Iterator[str]:
    phrases = _phrases()
    for place, stem in enumerate(stems):
        for phrase, concept in phrases.get(stem, ()):
            if tuple(stems[place : place + len(phrase)]) == phrase:
                yield concept


@cache
def _phrases() -> dict[str, list[tuple[tuple[str, ...], str]]]:
    """The phrases of ``synonyms.toml`` with their concepts, by their first stem.

    A phrase with common words is also one without them, if two words are left: "a lack of space" is also "lack space".
    """
    found: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for concept, phrases in _table("synonyms.toml").items():
        for phrase in phrases:
            words = words_of(phrase)
            whole = tuple(word.stem for word in words)
            short = tuple(word.stem for word in words if not word.is_common)
            for stems in {whole, short} if len(short) > 1 else {whole}:
                found.setdefault(stems[0], []).append((stems, f"{_CONCEPT}{concept}"))
    return found


@cache
def _common_words() -> frozenset[str]:
    return frozenset(_table("words.toml")["common"].split())


@cache
def _irregular_forms() -> Mapping[str, str]:
    return {form: word for word, forms in _table("words.toml")["irregular"].items() for form in forms.split()}


@cache
def _endings() -> tuple[str, ...]:
    return tuple(_table("words.toml")["endings"].split())


@cache
def _table(name: str) -> Mapping[str, Any]:
    return tomllib.loads(files("headrace.assistant.knowledge").joinpath(name).read_text(encoding="utf-8"))
