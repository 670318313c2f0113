"""Which expressions are accepted over the network as new values of columns."""

from __future__ import annotations

import pytest

from headrace.errors import PipelineError
from headrace.sql.plain_expression import check_change

ACCEPTED = (
    "amount=0",
    "amount = coalesce(amount, 0)",
    "amount=CASE WHEN amount < 0 THEN -amount ELSE amount END",
    "name='select from $ {x} (--'".replace("--", ""),
    "name=trim(upper(`my name`)) || 'x'",
    "at=to_timestamp(concat(day, ' ', hour), 'yyyy-MM-dd HH')",
    "amount=CAST(regexp_replace(text, '[^0-9]', '') AS DECIMAL(10, 2))",
    "flag=a IN (1, 2) AND NOT (b IS NULL)",
    "item=items[0].price",
    "n=1 + (2 - 3) * (4)",
)
REFUSED = (
    "amount",
    "=1",
    "amount=",
    "amount=  ",
    "amount=reflect('java.lang.Runtime', 'getRuntime')",
    "amount=java_method('x', 'y')",
    "amount=`reflect`('x', 'y')",
    'amount="reflect"(1)',
    "amount=identifier('reflect')('x')",
    "amount=system.builtin.reflect('x', 'y')",
    "amount=other.abs(1)",
    "amount=my_function(1)",
    "amount=(SELECT max(secret) FROM other)",
    "amount=EXISTS (TABLE other)",
    "amount='${env:HEADRACE_SECRET_A_B}'",
    "amount=${spark.hadoop.key}",
    "amount=1; DROP TABLE orders",
    "amount=1 -- more",
    "amount=abs/**/(1)",
    "amount=abs('",
    "amount=:parameter",
    "amount=read_files('/etc/passwd')",
    "amount=transform(items, x -> reflect(x))",
    "amount=current_user()",
    "amount=sum(amount) OVER ()",
    "amount=(abs)(1)",
    "amount=input_file_name()",
)


@pytest.mark.parametrize("change", ACCEPTED)
def test_an_expression_over_the_columns_of_a_row_is_accepted(change):
    assert check_change(change) is None


@pytest.mark.parametrize("change", REFUSED)
def test_anything_that_could_do_more_is_refused(change):
    with pytest.raises(PipelineError) as caught:
        check_change(change)

    assert caught.value.code == "SERVE.EXPRESSION"
