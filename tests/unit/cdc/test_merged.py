"""What a commit says of its batch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cdc.feed import MergePath
from headrace.cdc.merge_commit import MergeSummary, merge_summary_of
from headrace.model.outcome import ChangeCounts

numbers = st.integers(min_value=0)
maybe = st.none() | numbers
counts = st.builds(ChangeCounts, numbers, numbers, maybe, st.none(), maybe, st.none() | st.text())
batches = st.builds(MergeSummary, st.sampled_from(MergePath), st.none() | counts, st.booleans())


@given(batch=batches, users=st.none() | st.text())
def test_merge_summary_survives_a_round_trip_with_any_user_metadata(batch, users):
    assert merge_summary_of(batch.to_text(users)) == batch


@pytest.mark.parametrize("text", [None, "", "nightly run", "{}", "[]", "7", '{"headrace": 1}', '{"headrace": {}}'])
def test_commit_metadata_of_other_writers_has_no_merge_summary(text):
    assert merge_summary_of(text) is None


def test_merge_summary_of_version_0_1_is_read_despite_its_old_wording():
    batch = MergeSummary(MergePath.RECOMPUTED_KEYS, None, versions=True)
    text = batch.to_text(None).replace(MergePath.RECOMPUTED_KEYS.value, "rows are built anew")

    assert merge_summary_of(text) == batch
