"""Views like those of TPC-H and TPC-DI over generated tables, for the scenario ``views``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A generated table.

    Attributes:
        columns: its columns in SQL.
        share: its rows for each row of the largest table; whole numbers stand for rows.
        values: the expressions of its columns over ``id``, in which ``{rows}`` and the names in *scales* are numbers.
        scales: numbers that depend on the rows of the largest table.
    """

    columns: str
    share: float
    values: Sequence[str]
    scales: Mapping[str, float]

    def rows(self, rows: int) -> int:
        """Its rows if the largest table has so many."""
        return int(self.share) if self.share > 1 else max(int(rows * self.share), 1)

    def expressions(self, rows: int) -> list[str]:
        """The expressions of its columns."""
        numbers = {name: max(int(rows * share), 1) for name, share in self.scales.items()}
        names = [column.split()[0] for column in self.columns.split(", ")]
        return [
            f"CAST({value.format(**numbers)} AS {column.split(maxsplit=1)[1].removesuffix(' NOT NULL')}) AS {name}"
            for value, column, name in zip(self.values, self.columns.split(", "), names, strict=True)
        ]


@dataclass(frozen=True)
class ViewSet:
    """Views over tables.

    Attributes:
        tables: the tables by name.
        large: those that get more rows.
        update: the table whose rows are updated, the assignments, and the column by which rows are chosen.
        views: the queries by name.
    """

    tables: Mapping[str, Table]
    large: Sequence[str]
    update: tuple[str, str, str]
    views: Mapping[str, str]


_H = {"orders": 1 / 4, "customers": 1 / 40, "parts": 1 / 30, "suppliers": 1 / 600}
_H_TABLES = {
    "lineitem": Table(
        "l_id BIGINT NOT NULL, l_orderkey BIGINT NOT NULL, l_partkey BIGINT NOT NULL, l_suppkey BIGINT NOT NULL, "
        "l_quantity DECIMAL(12,2) NOT NULL, l_extendedprice DECIMAL(12,2) NOT NULL, l_discount DECIMAL(12,2) NOT NULL, "
        "l_tax DECIMAL(12,2) NOT NULL, l_returnflag STRING NOT NULL, l_linestatus STRING NOT NULL, "
        "l_shipdate DATE NOT NULL, l_commitdate DATE NOT NULL, l_receiptdate DATE NOT NULL, l_shipmode STRING NOT NULL",
        1,
        (
            *("id", "id div 4", "pmod(hash(id, 1), {parts})", "pmod(hash(id, 2), {suppliers})"),
            *("1 + pmod(hash(id, 3), 50)", "(90000 + pmod(hash(id, 4), 1000000)) / 100", "pmod(hash(id, 5), 11) / 100"),
            *("pmod(hash(id, 6), 9) / 100", "substr('ANR', 1 + pmod(hash(id, 7), 3), 1)"),
            "substr('FO', 1 + pmod(hash(id, 8), 2), 1)",
            "date_add(DATE'1992-01-01', CAST(id * 2500 div {orders} div 4 AS INT) + pmod(hash(id, 9), 60))",
            "date_add(DATE'1992-02-01', CAST(id * 2500 div {orders} div 4 AS INT) + pmod(hash(id, 10), 60))",
            "date_add(DATE'1992-02-01', CAST(id * 2500 div {orders} div 4 AS INT) + pmod(hash(id, 11), 60))",
            "element_at(array('AIR', 'FOB', 'MAIL', 'RAIL', 'REG AIR', 'SHIP', 'TRUCK'), 1 + pmod(hash(id, 12), 7))",
        ),
        _H,
    ),
    "orders": Table(
        "o_orderkey BIGINT NOT NULL, o_custkey BIGINT NOT NULL, o_orderstatus STRING NOT NULL, "
        "o_totalprice DECIMAL(12,2) NOT NULL, o_orderdate DATE NOT NULL, o_orderpriority STRING NOT NULL",
        1 / 4,
        (
            *("id", "pmod(hash(id, 1), {customers})", "substr('FOP', 1 + pmod(hash(id, 2), 3), 1)"),
            "(90000 + pmod(hash(id, 3), 40000000)) / 100",
            "date_add(DATE'1992-01-01', CAST(id * 2500 div {orders} AS INT))",
            "concat(1 + pmod(hash(id, 4), 5), '-PRIORITY')",
        ),
        _H,
    ),
    "customer": Table(
        "c_custkey BIGINT NOT NULL, c_name STRING NOT NULL, c_nationkey INT NOT NULL, "
        "c_acctbal DECIMAL(12,2) NOT NULL, c_mktsegment STRING NOT NULL",
        1 / 40,
        (
            *("id", "concat('Customer#', id)", "pmod(hash(id, 1), 25)", "pmod(hash(id, 2), 1000000) / 100"),
            "element_at(array('AUTO', 'BUILDING', 'FURNITURE', 'HOUSEHOLD', 'MACHINERY'), 1 + pmod(hash(id, 3), 5))",
        ),
        {},
    ),
    "part": Table(
        "p_partkey BIGINT NOT NULL, p_brand STRING NOT NULL, p_type STRING NOT NULL, p_size INT NOT NULL",
        1 / 30,
        (
            *("id", "concat('Brand#', 1 + pmod(hash(id, 1), 25))"),
            "concat(element_at(array('PROMO', 'BASIC'), 1 + pmod(hash(id, 2), 2)), ' ', pmod(hash(id, 3), 50))",
            "1 + pmod(hash(id, 4), 50)",
        ),
        {},
    ),
    "supplier": Table(
        "s_suppkey BIGINT NOT NULL, s_name STRING NOT NULL, s_nationkey INT NOT NULL",
        1 / 600,
        ("id", "concat('Supplier#', id)", "pmod(hash(id, 1), 25)"),
        {},
    ),
    "nation": Table(
        "n_nationkey INT NOT NULL, n_name STRING NOT NULL, n_regionkey INT NOT NULL",
        25,
        ("id", "concat('NATION ', id)", "id % 5"),
        {},
    ),
    "region": Table("r_regionkey INT NOT NULL, r_name STRING NOT NULL", 5, ("id", "concat('REGION ', id)"), {}),
}
_REVENUE = "l_extendedprice * (1 - l_discount)"
_H_VIEWS = {
    "q01_pricing": f"""SELECT l_returnflag, l_linestatus, sum(l_quantity) AS qty, sum(l_extendedprice) AS price,
        sum({_REVENUE}) AS revenue, sum(l_discount) AS discount, avg(l_quantity) AS mean_qty,
        avg(l_extendedprice) AS mean_price, avg(l_discount) AS mean_discount, count(*) AS orders
        FROM lineitem GROUP BY l_returnflag, l_linestatus""",
    "q03_shipping": f"""SELECT l_orderkey, o_orderdate, sum({_REVENUE}) AS revenue, count(*) AS lines
        FROM customer JOIN orders ON c_custkey = o_custkey JOIN lineitem ON l_orderkey = o_orderkey
        WHERE c_mktsegment = 'BUILDING' GROUP BY l_orderkey, o_orderdate""",
    "q04_priority": """SELECT o_orderpriority, count(*) AS orders FROM orders
        SEMI JOIN lineitem ON l_orderkey = o_orderkey AND l_commitdate < l_receiptdate GROUP BY o_orderpriority""",
    "q05_local": f"""SELECT n_name, r_name, sum({_REVENUE}) AS revenue, count(*) AS lines
        FROM customer JOIN orders ON c_custkey = o_custkey JOIN lineitem ON l_orderkey = o_orderkey
        JOIN supplier ON l_suppkey = s_suppkey AND c_nationkey = s_nationkey
        JOIN nation ON s_nationkey = n_nationkey JOIN region ON n_regionkey = r_regionkey GROUP BY n_name, r_name""",
    "q06_total": """SELECT sum(l_extendedprice * l_discount) AS revenue, count(*) AS lines FROM lineitem
        WHERE l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24""",
    "q07_volume": f"""SELECT s.n_name AS supplier, c.n_name AS customer, year(l_shipdate) AS year,
        sum({_REVENUE}) AS volume, count(*) AS lines FROM supplier JOIN lineitem ON s_suppkey = l_suppkey
        JOIN orders ON o_orderkey = l_orderkey JOIN customer ON c_custkey = o_custkey
        JOIN nation s ON s_nationkey = s.n_nationkey JOIN nation c ON c_nationkey = c.n_nationkey
        GROUP BY s.n_name, c.n_name, year(l_shipdate)""",
    "q10_returned": f"""SELECT c_custkey, c_name, c_acctbal, n_name, sum({_REVENUE}) AS revenue, count(*) AS lines
        FROM customer JOIN orders ON c_custkey = o_custkey JOIN lineitem ON l_orderkey = o_orderkey
        JOIN nation ON c_nationkey = n_nationkey WHERE l_returnflag = 'R'
        GROUP BY c_custkey, c_name, c_acctbal, n_name""",
    "q12_modes": """SELECT l_shipmode, count_if(o_orderpriority IN ('1-PRIORITY', '2-PRIORITY')) AS high,
        count_if(o_orderpriority NOT IN ('1-PRIORITY', '2-PRIORITY')) AS low, count(*) AS lines
        FROM orders JOIN lineitem ON o_orderkey = l_orderkey WHERE l_shipdate < l_commitdate GROUP BY l_shipmode""",
    "q13_customers": """SELECT c_custkey, count(o_orderkey) AS orders FROM customer
        LEFT JOIN orders ON c_custkey = o_custkey AND o_orderpriority <> '5-PRIORITY' GROUP BY c_custkey""",
    "q14_promotion": f"""SELECT date_trunc('month', l_shipdate) AS month,
        sum(CASE WHEN p_type LIKE 'PROMO%' THEN {_REVENUE} ELSE 0 END) AS promo, sum({_REVENUE}) AS revenue,
        100 * sum(CASE WHEN p_type LIKE 'PROMO%' THEN {_REVENUE} ELSE 0 END) / sum({_REVENUE}) AS share,
        count(*) AS lines FROM lineitem JOIN part ON l_partkey = p_partkey GROUP BY date_trunc('month', l_shipdate)""",
    "q15_suppliers": f"""SELECT l_suppkey, s_name, sum({_REVENUE}) AS revenue, count(*) AS lines FROM lineitem
        JOIN supplier ON l_suppkey = s_suppkey GROUP BY l_suppkey, s_name""",
    "q16_brands": """SELECT p_brand, p_size, count(DISTINCT l_suppkey) AS suppliers FROM lineitem
        JOIN part ON l_partkey = p_partkey GROUP BY p_brand, p_size""",
    "q17_quantity": """SELECT l_partkey, avg(CAST(l_quantity AS DOUBLE)) AS mean, max(l_shipdate) AS newest
        FROM lineitem GROUP BY l_partkey""",
    "q18_large": """SELECT o_custkey, l_orderkey, sum(l_quantity) AS quantity, count(*) AS lines
        FROM orders JOIN lineitem ON o_orderkey = l_orderkey GROUP BY o_custkey, l_orderkey
        HAVING sum(l_quantity) > 150""",
    "q20_lines": f"""SELECT l_id, l_orderkey, p_brand, s_name, {_REVENUE} AS revenue, l_shipdate FROM lineitem
        JOIN part ON l_partkey = p_partkey JOIN supplier ON l_suppkey = s_suppkey WHERE l_returnflag <> 'N'""",
}
_DI = {"accounts": 1 / 50, "customers": 1 / 100, "securities": 1 / 500, "companies": 1 / 1000, "brokers": 1 / 5000}
_DI_TABLES = {
    "trade": Table(
        "t_id BIGINT NOT NULL, t_time TIMESTAMP NOT NULL, t_account BIGINT NOT NULL, t_security BIGINT NOT NULL, "
        "t_quantity INT NOT NULL, t_price DECIMAL(8,2), t_fee DECIMAL(10,2), t_commission DECIMAL(10,2), "
        "t_type STRING NOT NULL, t_status STRING NOT NULL",
        1,
        (
            *("id", "timestamp_seconds(1700000000 + id)", "pmod(hash(id, 1), {accounts})"),
            *(
                "pmod(hash(id, 2), {securities})",
                "1 + pmod(hash(id, 3), 800)",
                "(100 + pmod(hash(id, 4), 90000)) / 100",
            ),
            *("pmod(hash(id, 5), 10000) / 100", "if(id % 13 = 0, NULL, pmod(hash(id, 6), 20000) / 100)"),
            "element_at(array('TMB', 'TMS', 'TSL', 'TLS', 'TLB'), 1 + pmod(hash(id, 7), 5))",
            "element_at(array('CMPT', 'CNCL', 'PNDG', 'SBMT'), 1 + pmod(hash(id, 8), 4))",
        ),
        _DI,
    ),
    "cash": Table(
        "ct_id BIGINT NOT NULL, ct_account BIGINT NOT NULL, ct_time TIMESTAMP NOT NULL, "
        "ct_amount DECIMAL(10,2) NOT NULL",
        1 / 2,
        (
            *("id", "pmod(hash(id, 1), {accounts})", "timestamp_seconds(1700000000 + id * 2)"),
            "(pmod(hash(id, 2), 2000000) - 1000000) / 100",
        ),
        _DI,
    ),
    "market": Table(
        "dm_id BIGINT NOT NULL, dm_security BIGINT NOT NULL, dm_date DATE NOT NULL, dm_close DECIMAL(8,2) NOT NULL, "
        "dm_high DECIMAL(8,2) NOT NULL, dm_low DECIMAL(8,2) NOT NULL, dm_volume INT NOT NULL",
        1 / 2,
        (
            *("id", "id % {securities}", "date_add(DATE'2023-11-01', CAST(id div {securities} AS INT))"),
            *("(100 + pmod(hash(id, 1), 90000)) / 100", "(50000 + pmod(hash(id, 2), 50000)) / 100"),
            *("(100 + pmod(hash(id, 3), 40000)) / 100", "pmod(hash(id, 4), 1000000)"),
        ),
        _DI,
    ),
    "account": Table(
        "a_id BIGINT NOT NULL, a_customer BIGINT NOT NULL, a_broker BIGINT NOT NULL, a_status STRING NOT NULL",
        1 / 50,
        ("id", "id div 2", "pmod(hash(id, 1), {brokers})", "if(id % 10 = 0, 'INAC', 'ACTV')"),
        _DI,
    ),
    "client": Table(
        "cl_id BIGINT NOT NULL, cl_tier INT NOT NULL, cl_country STRING NOT NULL",
        1 / 100,
        ("id", "1 + pmod(hash(id, 1), 3)", "concat('Country ', pmod(hash(id, 2), 30))"),
        _DI,
    ),
    "security": Table(
        "s_id BIGINT NOT NULL, s_symbol STRING NOT NULL, s_company BIGINT NOT NULL, s_exchange STRING NOT NULL",
        1 / 500,
        (
            "id",
            "concat('S', id)",
            "id div 2",
            "element_at(array('NYSE', 'NASDAQ', 'AMEX', 'PCX'), 1 + CAST(id % 4 AS INT))",
        ),
        _DI,
    ),
    "company": Table(
        "co_id BIGINT NOT NULL, co_name STRING NOT NULL, co_industry STRING NOT NULL",
        1 / 1000,
        ("id", "concat('Company ', id)", "concat('Industry ', id % 40)"),
        _DI,
    ),
}
_DI_VIEWS = {
    "d01_trades": """SELECT t_id, t_time, s_symbol, a_broker, a_customer, t_quantity * t_price AS volume, t_fee,
        t_status FROM trade JOIN security ON t_security = s_id
        JOIN account ON t_account = a_id WHERE t_status <> 'CNCL'""",
    "d02_balances": """SELECT ct_account, sum(ct_amount) AS balance, count(*) AS transactions, max(ct_time) AS newest
        FROM cash GROUP BY ct_account""",
    "d03_daily_cash": """SELECT ct_account, CAST(ct_time AS DATE) AS day, sum(ct_amount) AS amount, count(*) AS n
        FROM cash GROUP BY ct_account, CAST(ct_time AS DATE)""",
    "d04_holdings": """SELECT t_account, t_security, sum(if(t_type IN ('TMB', 'TLB'), t_quantity, -t_quantity)) AS held,
        count(*) AS trades FROM trade WHERE t_status = 'CMPT' GROUP BY t_account, t_security""",
    "d05_extremes": """SELECT dm_security, s_symbol, max(dm_high) AS high, min(dm_low) AS low, sum(dm_volume) AS volume,
        count(*) AS days FROM market JOIN security ON dm_security = s_id GROUP BY dm_security, s_symbol""",
    "d06_industries": """SELECT co_industry, date_trunc('month', dm_date) AS month, sum(dm_volume) AS volume,
        count(*) AS n FROM market JOIN security ON dm_security = s_id JOIN company ON s_company = co_id
        GROUP BY co_industry, date_trunc('month', dm_date)""",
    "d07_brokers": """SELECT a_broker, count(*) AS trades, count(t_commission) AS paid, sum(t_commission) AS commission,
        avg(t_commission) AS mean, sum(t_fee) AS fees, count(t_fee) AS with_fee FROM trade
        JOIN account ON t_account = a_id GROUP BY a_broker""",
    "d08_states": """SELECT t_status, t_type, count(*) AS trades, sum(t_quantity) AS quantity, avg(t_quantity) AS mean
        FROM trade GROUP BY t_status, t_type""",
    "d09_tiers": """SELECT cl_tier, cl_country, count(*) AS trades, count(DISTINCT t_account) AS accounts FROM trade
        JOIN account ON t_account = a_id JOIN client ON a_customer = cl_id GROUP BY cl_tier, cl_country""",
    "d10_totals": """SELECT count(*) AS trades, sum(t_quantity) AS quantity, min(t_time) AS first, max(t_time) AS newest
        FROM trade""",
    "d11_fees": """SELECT cl_country, count(*) AS trades, sum(t_fee) AS fees, count(t_fee) AS with_fee FROM trade
        LEFT JOIN account ON t_account = a_id AND a_status = 'ACTV' LEFT JOIN client ON a_customer = cl_id
        GROUP BY cl_country""",
    "d12_pairs": "SELECT DISTINCT t_account, t_security FROM trade WHERE t_type = 'TMB'",
    "d13_ranks": """SELECT dm_security, dm_date, dm_close, rank() OVER (PARTITION BY dm_security ORDER BY dm_close DESC)
        AS place, max(dm_high) OVER (PARTITION BY dm_security) AS high FROM market""",
    "d14_flows": """SELECT account, sum(amount) AS amount, count(*) AS n FROM (
        SELECT ct_account AS account, ct_amount AS amount FROM cash UNION ALL
        SELECT t_account, CAST(t_fee AS DECIMAL(10,2)) FROM trade WHERE t_fee IS NOT NULL) GROUP BY account""",
}
SETS = {
    "tpch": ViewSet(
        _H_TABLES,
        ("lineitem", "orders"),
        ("lineitem", "l_quantity = l_quantity + 1, l_extendedprice = l_extendedprice + 10", "l_id"),
        _H_VIEWS,
    ),
    "tpcdi": ViewSet(
        _DI_TABLES,
        ("trade", "cash", "market"),
        ("trade", "t_status = 'CMPT', t_fee = t_fee + 1", "t_id"),
        _DI_VIEWS,
    ),
}
