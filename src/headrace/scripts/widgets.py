"""``dbutils.widgets``: named parameters of a script."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NoReturn

from headrace.errors import PipelineError
from headrace.settings.dbutils import refuse

PREFIX = "HEADRACE_WIDGET_"
_WORKING = "Of dbutils.widgets, text, dropdown, combobox, multiselect, get, getAll, getArgument, remove, removeAll."


class Widgets:
    """``dbutils.widgets``, with the vendor's names.

    The value of a widget comes from ``--widget NAME=VALUE``, otherwise from the variable ``HEADRACE_WIDGET_<NAME>``,
    otherwise it is the default.
    """

    def __init__(self, given: Mapping[str, str], environ: Mapping[str, str]) -> None:
        self._given = given
        self._environ = environ
        self._defaults: dict[str, str] = {}

    def text(self, name: str, defaultValue: str, label: str | None = None) -> None:  # noqa: N803 - the vendor's name
        """Any text."""
        del label
        self._defaults[name] = str(defaultValue)

    def dropdown(
        self,
        name: str,
        defaultValue: str,  # noqa: N803 - the vendor's name
        choices: Sequence[str],
        label: str | None = None,
    ) -> None:
        """One of several values.

        Raises:
            PipelineError: SCRIPT.WIDGET_CHOICE.
        """
        self.text(name, defaultValue, label)
        self._check(name, [self.get(name)], choices)

    def combobox(
        self,
        name: str,
        defaultValue: str,  # noqa: N803 - the vendor's name
        choices: Sequence[str],
        label: str | None = None,
    ) -> None:
        """One of several values, or any other."""
        del choices
        self.text(name, defaultValue, label)

    def multiselect(
        self,
        name: str,
        defaultValue: str,  # noqa: N803 - the vendor's name
        choices: Sequence[str],
        label: str | None = None,
    ) -> None:
        """Some of several values, separated by commas.

        Raises:
            PipelineError: SCRIPT.WIDGET_CHOICE.
        """
        self.text(name, defaultValue, label)
        self._check(name, self.get(name).split(","), choices)

    def get(self, name: str) -> str:
        """The value of a widget.

        Raises:
            PipelineError: SCRIPT.NO_WIDGET.
        """
        value = self._value(name)
        if value is None:
            raise PipelineError("SCRIPT.NO_WIDGET", name=name, variable=_variable(name))
        return value

    def getAll(self) -> dict[str, str]:  # noqa: N802 - the vendor's name
        """All values by name."""
        return {name: self.get(name) for name in (*self._defaults, *(set(self._given) - set(self._defaults)))}

    def getArgument(self, name: str, defaultValue: str | None = None) -> str:  # noqa: N802, N803 - the vendor's
        """The value of a widget, or the default if it has none."""
        return self.get(name) if defaultValue is None or self._value(name) is not None else defaultValue

    def remove(self, name: str) -> None:
        """Remove a widget."""
        self._defaults.pop(name, None)

    def removeAll(self) -> None:  # noqa: N802 - the vendor's name
        """Remove all widgets."""
        self._defaults.clear()

    def help(self) -> None:
        """Print what works."""
        print(_WORKING)  # noqa: T201 - it is asked for

    def _value(self, name: str) -> str | None:
        return self._given.get(name, self._environ.get(_variable(name), self._defaults.get(name)))

    @staticmethod
    def _check(name: str, values: Sequence[str], choices: Sequence[str]) -> None:
        known = [str(choice) for choice in choices]
        for value in values:
            if value not in known:
                raise PipelineError("SCRIPT.WIDGET_CHOICE", name=name, value=value, choices=", ".join(known))

    def __getattr__(self, name: str) -> NoReturn:
        refuse(f"widgets.{name}", _WORKING)

    def __repr__(self) -> str:
        return "dbutils.widgets"


def _variable(name: str) -> str:
    return PREFIX + re.sub(r"[^A-Z0-9]", "_", name.upper())
