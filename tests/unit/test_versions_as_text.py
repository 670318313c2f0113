"""The history of a key, as text."""

import pytest

from headrace.testing import history

ROWS = [
    {"id": 1, "city": "Oaxaca", "rank": 2, "__START_AT": 5, "__END_AT": 7},
    {"id": 1, "city": "Tijuana", "rank": 2, "__START_AT": 1, "__END_AT": 5},
    {"id": 2, "city": "Cancun", "rank": 1, "__START_AT": 1, "__END_AT": None},
    {"id": 1, "city": "Oaxaca", "rank": 2, "__START_AT": 9, "__END_AT": None},
]


def test_versions_are_listed_in_order_with_their_changed_columns():
    assert history(ROWS, id=1).splitlines() == [
        "id=1",
        "  1 to 5: city='Tijuana', rank=2",
        "  5 to 7: city='Oaxaca'",
        "  7 to 9: no row",
        "  from 9: city='Oaxaca', rank=2",
    ]


def test_the_history_of_a_deleted_key_ends_without_a_row():
    assert history(ROWS[:2], id=1).splitlines()[-1] == "  from 7: no row"


def test_a_key_that_never_existed_is_reported():
    assert history(ROWS, id=3) == "id=3\n  never a row"


@pytest.mark.parametrize(
    ("rows", "key", "said"),
    [
        (ROWS, {"Id": 1}, "no column Id"),
        ([{"id": 1, "city": "Oslo"}], {"id": 1}, "__START_AT and __END_AT"),
        ([{**ROWS[0], "__SYSTEM_START_AT": 1, "__SYSTEM_END_AT": None}], {"id": 1}, "two times"),
    ],
)
def test_rows_without_a_history_of_the_key_are_refused(rows, key, said):
    with pytest.raises(ValueError, match=said):
        history(rows, **key)
