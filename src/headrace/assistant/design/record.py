"""The record of a design, which its project keeps: what was rendered and decided, and where answers came from.

With it, a later design of the same project tells edits from changed rules, and takes the same defaults and proposals.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import Any

from headrace.assistant.design.assumed import DELAY, NOTHING_ASSUMED, Assumed
from headrace.assistant.design.design import Design
from headrace.assistant.design.files.requirements_text import answer_at, requirements_text
from headrace.assistant.design.questions import without_answers
from headrace.assistant.design.requirements import Requirements
from headrace.assistant.design.sampling.finding import Contradiction, Findings, Proposal

# The file in a project, and the version of its format.
RECORD_FILE = ".headrace/design.json"
_FORMAT = 1


class InvalidRecord(ValueError):
    """A text is no record of a design, or one of a newer format; the message says why."""


@dataclass(frozen=True)
class DesignRecord:
    """What is known about the last design of a project.

    Attributes:
        version: of Headrace.
        requirements: digest of what the requirements state.
        files: digests of the rendered files by path.
        decisions: choice and reason of each decision by id.
        assumed: where answers came from.
        answers: the answers at the paths that *assumed* names.
    """

    version: str
    requirements: str
    files: Mapping[str, str]
    decisions: Mapping[str, tuple[str, str]]
    assumed: Assumed = NOTHING_ASSUMED
    answers: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, design: Design, version: str) -> DesignRecord:
        """The record of a design that was made by a version of Headrace."""
        requirements, assumed = design.blueprint.requirements, design.assumed
        findings = assumed.findings
        paths = {*assumed.defaults, DELAY, *findings.by_path, *(one.path for one in findings.contradictions)}
        return cls(
            version,
            requirements_digest(design),
            {path: digest(text.encode()) for path, text in design.files.items()},
            {decision.id: (decision.choice, decision.reason) for decision in design.decisions},
            assumed,
            {path: answer_at(requirements, path) for path in sorted(paths)},
        )

    def still_assumed(self, requirements: Requirements) -> tuple[Requirements, Assumed]:
        """The requirements without the defaults that nobody has changed, and what is still assumed about the rest."""
        current = {path: answer_at(requirements, path) for path in self.answers}
        kept = {path for path, answer in self.answers.items() if current[path] in (answer, None)}
        findings = self.assumed.findings
        assumed = Assumed(
            tuple(path for path in self.assumed.defaults if path in kept),
            Findings(
                tuple(one for one in findings.proposals if one.path in kept and current[one.path] is not None),
                tuple(one for one in findings.contradictions if one.path in kept),
            ),
            self.assumed.delay if DELAY in kept else None,
        )
        return without_answers(requirements, assumed.defaults), assumed

    def is_rendered(self, path: str, content: bytes) -> bool:
        """Whether a file has the content that the design gave it: nobody has edited it."""
        return self.files.get(path) == digest(content)

    def to_text(self) -> str:
        """The record as the text of its file."""
        findings = self.assumed.findings
        value = {
            "format": _FORMAT,
            "headrace": self.version,
            "requirements": self.requirements,
            "defaults": list(self.assumed.defaults),
            "proposals": [asdict(one) for one in findings.proposals],
            "contradictions": [asdict(one) for one in findings.contradictions],
            "delay": self.assumed.delay,
            "answers": self.answers,
            "decisions": {name: list(texts) for name, texts in self.decisions.items()},
            "files": self.files,
        }
        return json.dumps(value, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_text(cls, text: str) -> DesignRecord:
        """The inverse of :meth:`to_text`.

        Raises:
            InvalidRecord: the text is something else.
        """
        try:
            value = json.loads(text)
            is_newer = value["format"] > _FORMAT
            found = None if is_newer else cls._of_json(value)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidRecord("it is no record of a design") from error
        if found is None:
            raise InvalidRecord("a newer version of Headrace wrote it")
        return found

    @classmethod
    def _of_json(cls, value: Mapping[str, Any]) -> DesignRecord:
        findings = Findings(
            tuple(Proposal(**one) for one in value["proposals"]),
            tuple(Contradiction(**one) for one in value["contradictions"]),
        )
        return cls(
            str(value["headrace"]),
            str(value["requirements"]),
            dict(value["files"]),
            {name: (str(choice), str(reason)) for name, (choice, reason) in value["decisions"].items()},
            Assumed(tuple(value["defaults"]), findings, value["delay"]),
            dict(value["answers"]),
        )


def digest(content: bytes) -> str:
    """The digest of the content of a file."""
    return sha256(content).hexdigest()


def requirements_digest(design: Design) -> str:
    """The digest of what the requirements of a design state, without their form and without defaults."""
    stated = without_answers(design.blueprint.requirements, design.assumed.defaults)
    return digest(requirements_text(stated).encode())
