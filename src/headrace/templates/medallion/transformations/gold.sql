-- Gold: answers. A materialized view always equals its query over the tables as they are now.

CREATE OR REFRESH MATERIALIZED VIEW revenue_by_day
COMMENT 'Orders and revenue of each day'
AS SELECT
  CAST(ordered_at AS DATE) AS day,
  count(*)                 AS orders,
  sum(amount)              AS revenue
FROM orders
GROUP BY CAST(ordered_at AS DATE);

CREATE OR REFRESH MATERIALIZED VIEW revenue_by_product
COMMENT 'What is sold, and what it brings'
AS SELECT
  product,
  sum(quantity) AS sold,
  sum(amount)   AS revenue
FROM orders
GROUP BY product;
