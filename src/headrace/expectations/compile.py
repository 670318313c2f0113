"""Compiles the expectations of a dataset to mask columns: bit i is set if a row violates expectation i.

Law: for any row each expectation either passes or fails; NULL and evaluation errors count as failed.

Source: Catalyst's ``TryEval`` (sql/catalyst/.../TryEval.scala) turns any error of its child into NULL. Common
sub-expression elimination would lift a cast that two rules share out of it, where it raises. It never lifts anything
out of the later branch of a conditional (``EquivalentExpressions``), so the mask is in such a branch. The condition
cannot be folded away, costs a comparison of two ints and, because it is not deterministic, keeps the optimizer from
evaluating the mask twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.column import Column as ClassicColumn

from headrace.model.expectations import Action, Expectation
from headrace.model.names import quoted

# A mask is split into tallies, each of so few bits that each of their values can be counted separately.
BITS_PER_TALLY = 10
BITS_PER_MASK = 6 * BITS_PER_TALLY
_MASK_PREFIX = "__headrace_broken_"
_TALLY_PREFIX = "__headrace_tally_"
# Starts the message of the error that a row raises if it violates a fail expectation; JSON follows.
FAILED_MARK = "HEADRACE_EXPECTATION_FAILED "


@dataclass(frozen=True)
class Rules:
    """The expectations of a dataset, in the order of their bits in the masks.

    Attributes:
        expectations: in the order of declaration.
        helper_columns: columns that were added only for expectations.
        precomputed: expectations that only test a helper column.
    """

    expectations: tuple[Expectation, ...]
    helper_columns: tuple[str, ...] = ()
    precomputed: tuple[Expectation, ...] = ()

    @property
    def inline(self) -> tuple[Expectation, ...]:
        """The expectations that need no helper column."""
        return tuple(e for e in self.expectations if e not in self.precomputed)

    def with_action(self, action: Action) -> tuple[Expectation, ...]:
        """The expectations of one action."""
        return tuple(e for e in self.expectations if e.action is action)

    @property
    def mask_columns(self) -> tuple[str, ...]:
        """Names of the mask columns; one for every 60 expectations."""
        count = -(-len(self.expectations) // BITS_PER_MASK)
        return tuple(f"{_MASK_PREFIX}{number}" for number in range(count))

    @property
    def tally_columns(self) -> tuple[str, ...]:
        """Names of the tally columns; one for every ten expectations."""
        count = -(-len(self.expectations) // BITS_PER_TALLY)
        return tuple(f"{_TALLY_PREFIX}{number}" for number in range(count))

    @property
    def internal_columns(self) -> tuple[str, ...]:
        """Names of the columns that evaluation adds to those of the flow's function."""
        return self.mask_columns + self.tally_columns + self.helper_columns

    def violated(self, expectation: Expectation) -> Column:
        """True for an evaluated row that violates the expectation."""
        number = self.expectations.index(expectation)
        mask = F.col(self.mask_columns[number // BITS_PER_MASK])
        return mask.bitwiseAND(F.lit(1 << number % BITS_PER_MASK)) != F.lit(0)

    def any_violated(self, expectations: Sequence[Expectation]) -> Column:
        """True for an evaluated row that violates any of *expectations*; never NULL."""
        tests = []
        for index, column in enumerate(self.mask_columns):
            bits = sum(
                1 << number % BITS_PER_MASK
                for number, expectation in enumerate(self.expectations)
                if number // BITS_PER_MASK == index and expectation in expectations
            )
            if bits:
                tests.append(F.col(column).bitwiseAND(F.lit(bits)) != F.lit(0))
        return reduce(Column.__or__, tests) if tests else F.lit(False)  # noqa: FBT003 - a literal column


def evaluate(frame: DataFrame, rules: Rules, session: SparkSession) -> DataFrame:
    """The rows with their masks and tallies; a row that violates a fail expectation raises during evaluation."""
    return frame.select("*", *masks(rules, frame.columns, session)).select("*", *tallies(rules))


def masks(rules: Rules, names: Sequence[str], session: SparkSession) -> list[Column]:
    """The mask columns for rows with columns of these names.

    They fit every frame with these columns. Each rule costs a few milliseconds here, nearly all in Python.
    """
    never = F.spark_partition_id() < 0
    failing = rules.with_action(Action.FAIL)
    names = [name for name in names if name not in rules.helper_columns]
    columns = []
    for index, name in enumerate(rules.mask_columns):
        mask = F.when(never, F.lit(None).cast("bigint"))
        if index == 0:
            for expectation in failing:
                mask = mask.when(~_holds(expectation, session), _raise(expectation, names))
        first = index * BITS_PER_MASK
        bits = [
            F.when(_holds(expectation, session), F.lit(0)).otherwise(F.lit(1 << number)).cast("bigint")
            for number, expectation in enumerate(rules.expectations[first : first + BITS_PER_MASK])
        ]
        columns.append(mask.otherwise(reduce(Column.bitwiseOR, bits)).alias(name))
    return columns


def tallies(rules: Rules) -> list[Column]:
    """The tally columns for rows with masks: ten bits of a mask as a number, NULL if none is set."""
    columns = []
    for number, name in enumerate(rules.tally_columns):
        index, shift = divmod(number * BITS_PER_TALLY, BITS_PER_MASK)
        bits = F.shiftrightunsigned(F.col(rules.mask_columns[index]), shift).bitwiseAND(F.lit(2**BITS_PER_TALLY - 1))
        columns.append(F.when(bits != F.lit(0), bits.cast("double")).alias(name))
    return columns


def predicate_column(expectation: Expectation) -> Column:
    """The predicate as a column; SQL text is parsed as one expression, never pasted into a statement."""
    if isinstance(expectation.predicate, str):
        return F.expr(expectation.predicate)
    return expectation.predicate  # type: ignore[no-any-return]


def _holds(expectation: Expectation, session: SparkSession) -> Column:
    """True if a row satisfies the expectation, else false; never NULL, never an error."""
    jvm: Any = session._jvm  # noqa: SLF001 - TryEval has no public function
    expressions = jvm.org.apache.spark.sql.classic.ExpressionUtils
    try_eval = jvm.org.apache.spark.sql.catalyst.expressions.TryEval
    predicate = predicate_column(expectation)
    evaluated = try_eval(expressions.expression(predicate._jc))  # noqa: SLF001
    guarded = ClassicColumn(expressions.column(evaluated))
    return F.coalesce(guarded, F.lit(False))  # noqa: FBT003 - a literal column


def _raise(expectation: Expectation, names: Sequence[str]) -> Column:
    row = F.to_json(F.struct(*[F.col(quoted(name)) for name in names]))
    details = F.to_json(F.struct(F.lit(expectation.name).alias("expectation"), row.alias("row")))
    return F.raise_error(F.concat(F.lit(FAILED_MARK), details)).cast("bigint")
