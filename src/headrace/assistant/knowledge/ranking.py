"""Ranks pages for a search: BM25 over weighted fields, and the one line of a page that is most like the search."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from headrace.assistant.knowledge.page import Page
from headrace.assistant.knowledge.words import Word, is_concept, terms_of, words_of

# How much a term counts by where it is. A page is written for its symptoms, so the body says least.
_TITLE, _ALIASES, _SYMPTOMS, _BODY = 3.0, 3.0, 2.0, 1.0
# BM25's saturation of repeated terms, and its correction for long fields.
_K1, _B = 1.2, 0.6
# A concept is only like the word of the search, and a word of another spelling may be another word.
_CONCEPT_WEIGHT, _RESPELLED_WEIGHT = 0.5, 0.7
# How much the most similar line counts beside BM25.
_LINE_WEIGHT = 10.0
# Shorter words have too many neighbours.
_SHORTEST_RESPELLED = 5
_CLOSE = 0.8


@dataclass
class _Field:
    """One field of all pages, such as their titles."""

    weight: float
    counts: list[Counter[str]] = field(default_factory=list)

    def frequencies(self) -> Iterable[tuple[int, str, float]]:
        """Page, term and weighted frequency, corrected for the length of the field."""
        lengths = [count.total() for count in self.counts]
        average = sum(lengths) / max(len(lengths), 1) or 1.0
        for page, (count, length) in enumerate(zip(self.counts, lengths, strict=True)):
            correction = self.weight / (1 - _B + _B * length / average)
            for term, times in count.items():
                yield page, term, correction * times


class Index:
    """The terms of pages.

    Args:
        pages: the pages, in the order that equal scores keep.
        weights: a factor for the scores of a category, if it is not 1.
    """

    def __init__(self, pages: Sequence[Page], weights: Mapping[str, float]) -> None:
        self._pages = pages
        self._weights = [weights.get(page.category, 1.0) for page in pages]
        self._lines: list[list[frozenset[str]]] = []
        self._postings: dict[str, dict[int, float]] = {}
        self._words: set[str] = set()
        fields = [_Field(weight) for weight in (_TITLE, _ALIASES, _SYMPTOMS, _BODY)]
        for page in pages:
            groups = [[page.title], page.aliases, page.symptoms, [page.body]]
            terms = [[self._read(line) for line in group] for group in groups]
            for kept, lines in zip(fields, terms, strict=True):
                kept.counts.append(Counter(term for line in lines for term in line))
            self._lines.append([frozenset(line) for lines in terms[:3] for line in lines if line])
        for kept in fields:
            for number, term, frequency in kept.frequencies():
                posting = self._postings.setdefault(term, {})
                posting[number] = posting.get(number, 0.0) + frequency
        count = len(pages)
        self._rarity = {
            term: math.log(1 + (count - len(found) + 0.5) / (len(found) + 0.5))
            for term, found in self._postings.items()
        }

    def search(self, text: str) -> list[tuple[Page, float]]:
        """The pages that have a term of the text, with their scores, the best first; equal scores in their order."""
        wanted = self._wanted(words_of(text))
        scores: dict[int, float] = {}
        for term, weight in wanted.items():
            for page, frequency in self._postings.get(term, {}).items():
                gain = weight * self._rarity[term] * frequency * (_K1 + 1) / (frequency + _K1)
                scores[page] = scores.get(page, 0.0) + gain
        ranked = [
            (self._pages[page], round(self._weights[page] * (score + self._line(page, wanted)), 3))
            for page, score in sorted(scores.items())
        ]
        return sorted(ranked, key=lambda found: -found[1])

    def fit(self, text: str, line: str) -> float:
        """How many terms of the text a line has, by their rarity."""
        found = set(terms_of(words_of(line)))
        return sum(weight * self._rarity.get(term, 0.0) for term, weight in self._wanted(words_of(text)).items() if term in found)

    def _read(self, text: str) -> list[str]:
        words = words_of(text)
        self._words.update(word.text for word in words)
        return terms_of(words)

    def _wanted(self, words: Sequence[Word]) -> dict[str, float]:
        """The terms of a search with their weights."""
        spelled = [self._respelled(word) for word in words]
        wanted = {term: _CONCEPT_WEIGHT for term in terms_of([word for word, _ in spelled]) if is_concept(term)}
        for word, weight in spelled:
            wanted[word.stem] = max(weight, wanted.get(word.stem, 0.0))
        return wanted

    def _respelled(self, word: Word) -> tuple[Word, float]:
        """The word, or the known word that is spelled most alike if no page has this one."""
        if word.stem in self._postings or len(word.text) < _SHORTEST_RESPELLED:
            return word, 1.0
        near = get_close_matches(word.text, sorted(self._words), n=1, cutoff=_CLOSE)
        return (words_of(near[0])[0], _RESPELLED_WEIGHT) if near else (word, 1.0)

    def _line(self, page: int, wanted: Mapping[str, float]) -> float:
        """How similar the most similar line of a page is: 1 at most, times its weight."""
        length = math.sqrt(sum((weight * self._rarity.get(term, 0.0)) ** 2 for term, weight in wanted.items()))
        if not length:
            return 0.0
        best = max((self._similarity(line, wanted) for line in self._lines[page]), default=0.0)
        return _LINE_WEIGHT * best / length

    def _similarity(self, line: frozenset[str], wanted: Mapping[str, float]) -> float:
        shared = line & wanted.keys()
        if not shared:
            return 0.0
        own = {term: (_CONCEPT_WEIGHT if is_concept(term) else 1.0) * self._rarity[term] for term in line}
        product = sum(own[term] * wanted[term] * self._rarity[term] for term in shared)
        return product / math.sqrt(sum(value * value for value in own.values()))
