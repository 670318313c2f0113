"""All expectations of a dataset as one mask column: bit i is set when a row breaks expectation i.

Law: for any row each expectation is either passed or failed; NULL and an error while evaluating count as failed.

Source: Catalyst's ``TryEval`` (sql/catalyst/.../TryEval.scala) turns any error of its child into NULL. Spark's
elimination of common sub-expressions would lift a cast that two rules share out of it, where it raises; it never
lifts anything out of the later branch of a conditional (``EquivalentExpressions``), so the mask stands in one. The
condition cannot be folded away, costs the comparison of two ints, and keeps the optimizer from evaluating the mask
twice, because it is not deterministic.
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

# A mask is told in tallies, each of so few bits that all their values can be counted apart.
BITS_PER_TALLY = 10
BITS_PER_MASK = 6 * BITS_PER_TALLY
_MASK_PREFIX = "__headrace_broken_"
_TALLY_PREFIX = "__headrace_tally_"
# Starts the message of the error that a row which breaks a fail expectation raises; JSON follows.
FAILED_MARK = "HEADRACE_EXPECTATION_FAILED "


@dataclass(frozen=True)
class Rules:
    """The expectations of a dataset, each with its place in the masks.

    Attributes:
        expectations: in the order of declaration.
        looks_at: columns made for them alone.
        told: those that are told by one of these columns, and by nothing else.
    """

    expectations: tuple[Expectation, ...]
    looks_at: tuple[str, ...] = ()
    told: tuple[Expectation, ...] = ()

    @property
    def of_rows(self) -> tuple[Expectation, ...]:
        """The expectations that need no such column."""
        return tuple(e for e in self.expectations if e not in self.told)

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
    def own_columns(self) -> tuple[str, ...]:
        """Names of what a judged row has beside the columns of the flow's function."""
        return self.mask_columns + self.tally_columns + self.looks_at

    def broken(self, expectation: Expectation) -> Column:
        """True for a judged row that breaks the expectation."""
        number = self.expectations.index(expectation)
        mask = F.col(self.mask_columns[number // BITS_PER_MASK])
        return mask.bitwiseAND(F.lit(1 << number % BITS_PER_MASK)) != F.lit(0)

    def any_broken(self, expectations: Sequence[Expectation]) -> Column:
        """True for a judged row that breaks one of *expectations*; never NULL."""
        tests = []
        for place, column in enumerate(self.mask_columns):
            bits = sum(
                1 << number % BITS_PER_MASK
                for number, expectation in enumerate(self.expectations)
                if number // BITS_PER_MASK == place and expectation in expectations
            )
            if bits:
                tests.append(F.col(column).bitwiseAND(F.lit(bits)) != F.lit(0))
        return reduce(Column.__or__, tests) if tests else F.lit(False)  # noqa: FBT003 - a literal column


def judged(frame: DataFrame, rules: Rules, session: SparkSession) -> DataFrame:
    """The rows with their masks and tallies; a row that breaks a fail expectation raises while it is evaluated."""
    return frame.select("*", *masks(rules, frame.columns, session)).select("*", *tallies(rules))


def masks(rules: Rules, names: Sequence[str], session: SparkSession) -> list[Column]:
    """The mask columns for rows with columns of these names.

    They hold for every frame that has them. Each rule costs a few milliseconds here, nearly all of them Python's.
    """
    never = F.spark_partition_id() < 0
    failing = rules.with_action(Action.FAIL)
    names = [name for name in names if name not in rules.looks_at]
    columns = []
    for place, name in enumerate(rules.mask_columns):
        mask = F.when(never, F.lit(None).cast("bigint"))
        if place == 0:
            for expectation in failing:
                mask = mask.when(~_holds(expectation, session), _raise(expectation, names))
        first = place * BITS_PER_MASK
        bits = [
            F.when(_holds(expectation, session), F.lit(0)).otherwise(F.lit(1 << number)).cast("bigint")
            for number, expectation in enumerate(rules.expectations[first : first + BITS_PER_MASK])
        ]
        columns.append(mask.otherwise(reduce(Column.bitwiseOR, bits)).alias(name))
    return columns


def tallies(rules: Rules) -> list[Column]:
    """The tally columns for rows with masks: ten bits of a mask as a number, NULL where none of them is set."""
    columns = []
    for number, name in enumerate(rules.tally_columns):
        place, shift = divmod(number * BITS_PER_TALLY, BITS_PER_MASK)
        bits = F.shiftrightunsigned(F.col(rules.mask_columns[place]), shift).bitwiseAND(F.lit(2**BITS_PER_TALLY - 1))
        columns.append(F.when(bits != F.lit(0), bits.cast("double")).alias(name))
    return columns


def predicate_column(expectation: Expectation) -> Column:
    """The predicate as a column; SQL text is parsed as one expression, never pasted into a statement."""
    if isinstance(expectation.predicate, str):
        return F.expr(expectation.predicate)
    return expectation.predicate  # type: ignore[no-any-return]


def _holds(expectation: Expectation, session: SparkSession) -> Column:
    """True when a row satisfies the expectation, false in every other case; never NULL, never an error."""
    jvm: Any = session._jvm  # noqa: SLF001 - TryEval has no public function
    expressions = jvm.org.apache.spark.sql.classic.ExpressionUtils
    try_eval = jvm.org.apache.spark.sql.catalyst.expressions.TryEval
    predicate = predicate_column(expectation)
    evaluated = try_eval(expressions.expression(predicate._jc))  # noqa: SLF001
    guarded = ClassicColumn(expressions.column(evaluated))
    return F.coalesce(guarded, F.lit(False))  # noqa: FBT003 - a literal column


def _raise(expectation: Expectation, names: Sequence[str]) -> Column:
    row = F.to_json(F.struct(*[F.col(quoted(name)) for name in names]))
    said = F.to_json(F.struct(F.lit(expectation.name).alias("expectation"), row.alias("row")))
    return F.raise_error(F.concat(F.lit(FAILED_MARK), said)).cast("bigint")
