"""The proofs of the practice questions: each claim holds when its program runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.assistant.practice.question import Claim, question, questions
from headrace.errors import PipelineError
from headrace.practice.proofs import prove
from headrace.testing.warm import unchanged

pytestmark = pytest.mark.spark

OTHER_CASES = pytest.mark.long(guard="its other cases")
# Some streams without Python workers, tables of Delta or pipelines: the cheap ones.
CHEAP = (1, 3, 8, 9, 17, 18)


@pytest.fixture
def proved(headrace_session, tmp_path):
    """Runs a proof; gives what it observed."""
    with unchanged(headrace_session, tmp_path):
        headrace_session.conf.set("spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows", "true")
        yield lambda found: prove(found, headrace_session, tmp_path)


@pytest.mark.parametrize(
    "number",
    [pytest.param(one.number, marks=() if one.number in CHEAP else OTHER_CASES) for one in questions()],
)
def test_every_claim_of_a_proof_holds(proved, headrace_session, number):
    found = question(number)

    observed = proved(found)

    assert {one.claim.name: one.value for one in observed} == {one.name: one.expected for one in found.proof.claims}
    assert headrace_session.streams.active == []


def with_proof(program, *claims):
    proof = replace(question(1).proof, program=program, claims=claims)
    return replace(question(1), proof=proof)


def test_a_claim_that_is_wrong_does_not_hold(proved):
    claims = (Claim("rows", "rows", 3), Claim("rows", "rows", 2), Claim("same", "one is not true", 1))

    observed = proved(with_proof("rows = spark.range(3).count()\nsame = rows == 3", *claims))

    assert [one.holds for one in observed] == [True, False, False]


@pytest.mark.parametrize("program", ["spark.table('nowhere')", "other = 1"])
def test_a_proof_that_does_not_end_is_an_error(proved, program):
    with pytest.raises(PipelineError) as raised:
        proved(with_proof(program, Claim("rows", "rows", 3)))

    assert raised.value.code == "PRACTICE.PROOF_FAILED"
