"""A call that a wrapper of a PySpark method passes on is the user's; one that this package makes is not."""

from __future__ import annotations

import pytest

from headrace.spark.notebook import frames
from headrace.spark.notebook.call_origin import by_user
from headrace.spark.queries import query_calls
from headrace.spark.readers import auto_loader, custom_formats, delta_reader, input_file, kafka_reader
from headrace.spark.session import listeners
from headrace.spark.startup import patches

WRAPPERS = (auto_loader, custom_formats, delta_reader, frames, input_file, kafka_reader, listeners, patches)


def called_from(module):
    """What a call from a module's file is taken for."""
    names = {}
    exec(compile("def call(function):\n    return function()\n", module.__file__, "exec"), names)
    return names["call"](by_user)


@pytest.mark.parametrize("module", WRAPPERS, ids=lambda module: module.__name__)
def test_call_through_a_wrapper_counts_as_a_user_call(module):
    assert called_from(module)


def test_call_from_this_package_is_not_a_user_call():
    assert not called_from(query_calls)
