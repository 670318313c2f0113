-- Gold: answers. A materialized view always equals its query over the tables as they are now: after an update in which
-- nothing new arrived, it is left alone.

CREATE OR REFRESH MATERIALIZED VIEW delay_by_carrier_hour
COMMENT 'How late flights leave, by carrier and scheduled hour of the day'
AS SELECT
  carrier,
  airline,
  hour,
  count(*)                  AS flights,
  count_if(dep_time IS NULL) AS cancelled,
  count_if(dep_delay > 15)  AS delayed,
  round(avg(dep_delay), 1)  AS avg_dep_delay
FROM unique_flights
GROUP BY carrier, airline, hour;

CREATE OR REFRESH MATERIALIZED VIEW busiest_routes
COMMENT 'Routes by the number of flights, busiest first'
AS SELECT
  rank() OVER (ORDER BY count(*) DESC) AS place,
  origin,
  dest,
  destination,
  count(*)                 AS flights,
  count(DISTINCT carrier)  AS carriers,
  round(avg(arr_delay), 1) AS avg_arr_delay
FROM unique_flights
GROUP BY origin, dest, destination;

CREATE OR REFRESH MATERIALIZED VIEW delay_by_visibility
COMMENT 'How late flights leave, by how far one could see (miles; NULL: no weather report for that hour)'
AS SELECT
  CAST(floor(w.visib) AS INT) AS visibility_miles,
  count(*)                    AS flights,
  count_if(f.dep_time IS NULL) AS cancelled,
  round(avg(f.dep_delay), 1)  AS avg_dep_delay
FROM unique_flights AS f
LEFT JOIN weather AS w ON w.origin = f.origin AND w.time_hour = f.time_hour
GROUP BY floor(w.visib);
