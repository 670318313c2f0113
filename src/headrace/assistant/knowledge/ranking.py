"""Ranks pages for a search: BM25 over weighted fields, and the one line of a page that is most like the search.

Of 101 questions that were written after the pages, and before symptoms or synonyms were tuned on them, 91 had a page
that answers among the first three, and 85 with BM25 of SQLite's FTS5 over the same fields (stems of Porter, any word of
the question, the best of some weights).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from typing import NamedTuple

from headrace.assistant.knowledge.page import Page
from headrace.assistant.knowledge.words import Word, is_concept, terms_of, words_of

# A page is written for its title, its aliases and its symptoms, so a term says less if only the text has it.
_LINE, _BODY = 1.0, 0.1
# BM25's saturation of repeated terms, and its correction for pages with many lines.
_K1, _B = 1.5, 0.25
# A concept is only like the word of the search, and a word of another spelling may be another word.
_CONCEPT_WEIGHT, _RESPELLED_WEIGHT = 0.75, 0.7
# Shorter words have too many neighbours; a typo is seldom in the first letter.
_SHORTEST_RESPELLED = 5
_CLOSE, _LONGER = 0.8, 2
# Only the best pages by BM25 are compared line by line, which takes most of the time.
_COMPARED = 40
# Above every other score: the search is the name of the page.
_NAMED = 1000.0


class _Line(NamedTuple):
    """The terms of a title, an alias or a symptom, and the length of their vector."""

    terms: frozenset[str]
    length: float


class Index:
    """The terms of pages.

    Args:
        pages: the pages, in the order that equal scores keep.
        weights: a factor for the scores of a category, if it is not 1.
    """

    def __init__(self, pages: Sequence[Page], weights: Mapping[str, float]) -> None:
        self._pages = pages
        self._weights = [weights.get(page.category, 1.0) for page in pages]
        self._words: dict[str, None] = {}
        lines = [[self._read(line) for line in (page.title, *page.aliases, *page.symptoms)] for page in pages]
        bodies = [self._read(page.body) for page in pages]
        self._rarity = _rarity([*(line for group in lines for line in group), *bodies])
        self._postings = _postings(lines, bodies)
        self._lines = [[self._line(line) for line in group if line] for group in lines]

    def search(self, text: str) -> list[tuple[Page, float]]:
        """The pages that have a term of the text, with their scores, the best first; equal scores in their order."""
        wanted = self._wanted(words_of(text))
        scores: dict[int, float] = {}
        for term, weight in wanted.items():
            for number, frequency in self._postings.get(term, {}).items():
                gain = weight * frequency * (_K1 + 1) / (frequency + _K1)
                scores[number] = scores.get(number, 0.0) + gain
        best = sorted(scores, key=lambda number: (-scores[number] * self._weights[number], number))
        for number in best[:_COMPARED]:
            scores[number] += self._most_similar(number, wanted)
        name = text.strip().casefold()
        ranked = []
        for number, score in sorted(scores.items()):
            page = self._pages[number]
            named = _NAMED if name == page.name.casefold() else 0.0
            ranked.append((page, round(named + self._weights[number] * score, 3)))
        return sorted(ranked, key=lambda found: -found[1])

    def best_line(self, text: str, lines: Sequence[str]) -> str:
        """The first of the lines that have most terms of a text, by their rarity."""
        wanted = self._wanted(words_of(text))
        found = (_terms(line) & wanted.keys() for line in lines)
        fits = [sum(wanted[term] for term in sorted(terms)) for terms in found]
        return lines[fits.index(max(fits))]

    def _read(self, text: str) -> list[str]:
        words = words_of(text)
        self._words.update(dict.fromkeys(word.text for word in words))
        return terms_of(words)

    def _wanted(self, words: Sequence[Word]) -> dict[str, float]:
        """The terms of a search that a page has, with their weights."""
        spelled = [(word, 1.0) if word.is_common else self._respelled(word) for word in words]
        wanted = {term: _CONCEPT_WEIGHT for term in terms_of([word for word, _ in spelled]) if is_concept(term)}
        wanted |= {word.stem: weight for word, weight in spelled if not word.is_common}
        return {term: weight * self._rarity[term] for term, weight in wanted.items() if term in self._rarity}

    def _respelled(self, word: Word) -> tuple[Word, float]:
        """The word, or the known word that is spelled most alike if no page has this one."""
        if word.stem in self._rarity or len(word.text) < _SHORTEST_RESPELLED:
            return word, 1.0
        similar = [
            known for known in self._words if known[0] == word.text[0] and abs(len(known) - len(word.text)) <= _LONGER
        ]
        near = get_close_matches(word.text, similar, n=1, cutoff=_CLOSE)
        return (words_of(near[0])[-1], _RESPELLED_WEIGHT) if near else (word, 1.0)

    def _line(self, terms: Sequence[str]) -> _Line:
        distinct = frozenset(terms)
        return _Line(distinct, math.hypot(*(self._own_weight(term) for term in distinct)))

    def _own_weight(self, term: str) -> float:
        return self._rarity[term] * (_CONCEPT_WEIGHT if is_concept(term) else 1.0)

    def _most_similar(self, page: int, wanted: Mapping[str, float]) -> float:
        """The cosine of the search and the line of a page that is most like it, times the length of the search."""
        return max((self._similarity(line, wanted) for line in self._lines[page]), default=0.0)

    def _similarity(self, line: _Line, wanted: Mapping[str, float]) -> float:
        shared = line.terms & wanted.keys()
        return sum(self._own_weight(term) * wanted[term] for term in shared) / line.length if shared else 0.0


@cache
def _terms(line: str) -> frozenset[str]:
    return frozenset(terms_of(words_of(line)))


def _rarity(lines: Sequence[Sequence[str]]) -> Mapping[str, float]:
    """How much each term says: more if few lines have it. The text of a page is one line."""
    counts = Counter(term for line in lines for term in set(line))
    return {term: math.log(1 + (len(lines) - count + 0.5) / (count + 0.5)) for term, count in counts.items()}


def _postings(lines: Sequence[Sequence[Sequence[str]]], bodies: Sequence[Sequence[str]]) -> dict[str, dict[int, float]]:
    """The weighted frequency of each term on each page that has it."""
    counts = [Counter(term for line in group for term in line) for group in lines]
    average = sum(count.total() for count in counts) / max(len(counts), 1) or 1.0
    found: dict[str, dict[int, float]] = {}
    for page, (count, body) in enumerate(zip(counts, bodies, strict=True)):
        # A page with few lines gains nothing from being short.
        correction = _LINE / max(1 - _B + _B * count.total() / average, 1.0)
        for term, times in count.items():
            found.setdefault(term, {})[page] = correction * times
        for term, times in Counter(body).items():
            posting = found.setdefault(term, {})
            posting[page] = posting.get(page, 0.0) + _BODY * times
    return found
