"""Names of the options of Delta's readers."""

from __future__ import annotations

import pytest

from headrace.errors import Problems
from headrace.sources.delta_options import check_delta_options


def test_what_delta_knows_passes_in_any_case_with_what_is_of_the_file_system_and_the_table():
    check_delta_options(["STARTINGversion", "readChangeFeed", "versionAsOf", "path", "fs.s3a.endpoint", "delta.x"])


@pytest.mark.parametrize(("name", "near"), [("startingVersoin", "startingVersion"), ("zzz", "none")])
def test_an_unknown_option_is_refused_with_the_nearest_name(name, near):
    with pytest.raises(Problems) as refused:
        check_delta_options(["maxFilesPerTrigger", name])

    (error,) = refused.value
    assert (error.code, error.params["option"], error.params["near"]) == ("SOURCE.OPTION_UNKNOWN", name, near)


def test_what_the_vendors_delta_alone_has_is_refused_with_the_reason():
    with pytest.raises(Problems) as refused:
        check_delta_options(["witheventtimeorder"])

    (error,) = refused.value
    assert (error.code, error.params["option"]) == ("SOURCE.OPTION_REFUSED", "withEventTimeOrder")
