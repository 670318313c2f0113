"""Names of the options of Delta's readers."""

from __future__ import annotations

import pytest

from headrace.errors import Problems
from headrace.sources.delta_options import check_delta_options


def test_known_delta_file_system_and_table_options_are_accepted_in_any_case():
    check_delta_options(["STARTINGversion", "readChangeFeed", "versionAsOf", "path", "fs.s3a.endpoint", "delta.x"])


@pytest.mark.parametrize(("name", "near"), [("startingVersoin", "startingVersion"), ("zzz", "none")])
def test_an_unknown_option_is_refused_with_the_nearest_name(name, near):
    with pytest.raises(Problems) as refused:
        check_delta_options(["maxFilesPerTrigger", name])

    (error,) = refused.value
    assert (error.code, error.params["option"], error.params["near"]) == ("SOURCE.OPTION_UNKNOWN", name, near)


def test_an_option_that_only_databricks_supports_is_refused():
    with pytest.raises(Problems) as refused:
        check_delta_options(["witheventtimeorder"])

    (error,) = refused.value
    assert (error.code, error.params["option"]) == ("SOURCE.OPTION_REFUSED", "withEventTimeOrder")
