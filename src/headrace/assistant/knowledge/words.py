"""Turns text into the terms that a search compares: stems of words, and the concepts that phrases stand for."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

# Words, and names of several parts such as FLOW.CHECKPOINT_TORN and missing-checkpoint.
_NAME = re.compile(r"[^\W_]+(?:[._-][^\W_]+)*")
_PARTS = re.compile(r"[._-]")
# The humps of dropDuplicates; a word in capitals is one part.
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_VOWEL = re.compile(r"[aeiouy]")
_SHORTEST_STEM = 3
_STOP_WORDS = frozenset(
    """a about all also although am an and any are as at be because been being but by can cannot could did do does
    doing each for from get gets getting go goes got had has have having he her here him his how i if in into is it its
    just keep let like make many me mine more most much my need now of off on one or other our out over own please same
    say see she should so some such t s d ll m re ve than that the their them then there these they thing things this
    those to too try trying up us use used using very want wants was we were what when where which while who whom whose
    why will with within without would yet you your don doesn isn won didn aren wasn can't""".split()
)
_ENDINGS = (
    *("ational", "ation", "ator", "ate", "ition", "tion", "sion", "ness", "ment", "able", "ible", "ance", "ence", "ive"),
    *("er", "or"),
)
# Forms that no ending explains.
_IRREGULAR = {
    form: word
    for word, forms in {
        "begin": "began begun",
        "break": "broke broken",
        "bring": "brought",
        "catch": "caught",
        "choose": "chose chosen",
        "come": "came",
        "die": "dead died dying",
        "eat": "ate eaten",
        "fall": "fell fallen",
        "find": "found",
        "forget": "forgot forgotten",
        "freeze": "froze frozen",
        "grow": "grew grown",
        "hang": "hung",
        "hide": "hid hidden",
        "hold": "held",
        "keep": "kept",
        "know": "knew known",
        "leave": "left",
        "lose": "lost loss",
        "mean": "meant",
        "pay": "paid",
        "rise": "rose risen",
        "run": "ran",
        "send": "sent",
        "stand": "stood",
        "stick": "stuck",
        "take": "took taken",
        "tell": "told",
        "throw": "threw thrown",
        "wake": "woke woken",
        "write": "wrote written",
    }.items()
    for form in forms.split()
}
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
    return [Word(text, _stem(text), text in _STOP_WORDS) for text in _texts(text)]


def terms_of(words: Sequence[Word]) -> list[str]:
    """The stems of words, and the concepts of the phrases among them."""
    stems = [word.stem for word in words if not word.is_common]
    concepts = {*_concepts_in(stems), *_concepts_in([word.stem for word in words])}
    return [*stems, *sorted(concepts)]


def is_concept(term: str) -> bool:
    """Whether a term is a concept, not a stem."""
    return term.startswith(_CONCEPT)


def _texts(text: str) -> Iterator[str]:
    for found in _NAME.finditer(text.replace("'", "").replace("’", "")):
        name = found[0]
        parts = [hump for part in _PARTS.split(name) for hump in _HUMPS.split(part)]
        yield from (part.casefold() for part in parts)
        if len(parts) > 1:
            yield name.casefold()


@cache
def _stem(word: str) -> str:
    """A word without its endings: not a root, but equal for the forms of a word."""
    if not word.isalpha() or len(word) <= _SHORTEST_STEM:
        return word
    word = _IRREGULAR.get(word, word)
    stem = _without_past(_without_plural(word))
    for ending in _ENDINGS:
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

    A phrase with common words is also one without them, if two words are left: "takes a long time" is "takes long time".
    """
    text = files("headrace.assistant.knowledge").joinpath("synonyms.toml").read_text(encoding="utf-8")
    found: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for concept, phrases in tomllib.loads(text).items():
        for phrase in phrases:
            words = words_of(phrase)
            whole = tuple(word.stem for word in words)
            short = tuple(word.stem for word in words if not word.is_common)
            for stems in {whole, short} if len(short) > 1 else {whole}:
                found.setdefault(stems[0], []).append((stems, f"{_CONCEPT}{concept}"))
    return found
