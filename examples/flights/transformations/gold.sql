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

-- As it was at that time: a flight is joined to the versions of its plane and of its airline that held when it departed,
-- not to what is known of them today. A version holds from __START_AT until before __END_AT. When an event comes late,
-- flights of the past are joined to other versions, and the next update counts them anew.
CREATE OR REFRESH MATERIALIZED VIEW delay_away_from_home
COMMENT 'How late flights leave, by the airport that the plane left from most in that week (NULL: not known at that time)'
AS WITH departures AS (
  SELECT *, time_hour + make_dt_interval(0, 0, minute + dep_delay) AS departed_at
  FROM unique_flights
  WHERE dep_time IS NOT NULL
)
SELECT
  f.carrier,
  a.name                    AS airline,
  a.airport                 AS airline_home,
  p.airport                 AS plane_home,
  f.origin,
  count(*)                  AS flights,
  count(DISTINCT f.tailnum) AS planes,
  count_if(f.carrier <> p.carrier) AS flown_for_others,
  max(a.planes)             AS largest_fleet,
  sum(f.dep_delay)          AS minutes_late
FROM departures AS f
LEFT JOIN plane_history AS p
  ON p.tailnum = f.tailnum AND f.departed_at >= p.__START_AT AND (f.departed_at < p.__END_AT OR p.__END_AT IS NULL)
LEFT JOIN airline_history AS a
  ON a.carrier = f.carrier AND f.departed_at >= a.__START_AT AND (f.departed_at < a.__END_AT OR a.__END_AT IS NULL)
GROUP BY f.carrier, a.name, a.airport, p.airport, f.origin;
