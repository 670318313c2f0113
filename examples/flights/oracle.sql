-- What the pipeline's tables must hold, worked out a second time by DuckDB from the files that landed.
-- The variable `landing` is the folder of the feed, and `repaired` says whether flights that arrived half a day before
-- they could have a day more. oracle.py runs this file and reads the tables it makes.

-- A field as the JSON text that it is: 517 is a whole number; "abc", 15.45 and {"miles": 733} are none.
CREATE MACRO is_number(field) AS field IS NULL OR regexp_full_match(field, '-?[0-9]+');
CREATE MACRO number(field) AS CASE WHEN is_number(field) THEN CAST(field AS INTEGER) END;
-- Spark rounds half away from zero; so does DuckDB, when the number is a decimal.
CREATE MACRO avg_to_tenths(x) AS CAST(round(CAST(avg(x) AS DECIMAL(18, 9)), 1) AS DOUBLE);

CREATE TABLE airlines AS SELECT * FROM read_json(getvariable('landing') || '/reference/airlines.json');
CREATE TABLE airports AS SELECT * FROM read_json(getvariable('landing') || '/reference/airports.json');
CREATE TABLE planes   AS SELECT * FROM read_json(getvariable('landing') || '/reference/planes.json');
CREATE TABLE weather  AS SELECT * FROM read_json(getvariable('landing') || '/reference/weather.json');

-- A line that is no JSON is NULL in every field. A field of the wrong type is NULL, and makes its line unreadable.
CREATE TABLE landed AS
SELECT
  number(dep_time)  AS dep_time,
  number(dep_delay) AS dep_delay,
  number(arr_delay) AS arr_delay,
  number(flight)    AS flight,
  number(air_time)  AS air_time,
  number(distance)  AS distance,
  number(hour)      AS hour,
  number(minute)    AS minute,
  carrier, tailnum, origin, dest,
  TRY_CAST(time_hour AS TIMESTAMP) AS time_hour,
  lines.year IS NOT NULL
    AND TRY_CAST(lines.time_hour AS TIMESTAMP) IS NOT NULL
    AND is_number(year) AND is_number(month) AND is_number(day) AND is_number(lines.hour) AND is_number(lines.minute)
    AND is_number(lines.dep_time) AND is_number(sched_dep_time) AND is_number(lines.dep_delay)
    AND is_number(arr_time) AND is_number(sched_arr_time) AND is_number(lines.arr_delay)
    AND is_number(lines.flight) AND is_number(lines.air_time) AND is_number(lines.distance) AS readable
FROM read_json(
  getvariable('landing') || '/flights/*/*.json',
  format = 'newline_delimited',
  ignore_errors = true,
  columns = {
    year: 'JSON', month: 'JSON', day: 'JSON', hour: 'JSON', minute: 'JSON',
    dep_time: 'JSON', sched_dep_time: 'JSON', dep_delay: 'JSON',
    arr_time: 'JSON', sched_arr_time: 'JSON', arr_delay: 'JSON',
    flight: 'JSON', air_time: 'JSON', distance: 'JSON',
    carrier: 'VARCHAR', tailnum: 'VARCHAR', origin: 'VARCHAR', dest: 'VARCHAR', time_hour: 'VARCHAR'
  }
) AS lines;

CREATE TABLE mended AS
SELECT * REPLACE (
  CASE WHEN getvariable('repaired') AND arr_delay - dep_delay <= -720 THEN arr_delay + 1440 ELSE arr_delay END
  AS arr_delay
)
FROM landed;

CREATE TABLE judged AS
SELECT
  landed.*,
  airlines.name AS airline,
  airports.name AS destination,
  coalesce(distance > 0, false)                                                  AS goes_somewhere,
  air_time IS NULL OR air_time > 0                                               AS takes_time,
  arr_delay IS NULL OR coalesce(arr_delay - dep_delay > -720, false)             AS no_time_travel,
  landed.carrier IS NOT NULL                                                     AS has_carrier,
  airports.name IS NOT NULL                                                      AS known_destination,
  planes.tailnum IS NOT NULL                                                     AS known_aircraft,
  NOT readable OR coalesce(landed.origin IN ('EWR', 'JFK', 'LGA'), false)        AS from_new_york,
  CASE
    WHEN NOT (readable AND goes_somewhere AND takes_time AND no_time_travel) THEN 'quarantined'
    WHEN NOT has_carrier THEN 'dropped'
    ELSE 'written'
  END AS fate
FROM mended AS landed
LEFT JOIN airlines ON airlines.carrier = landed.carrier
LEFT JOIN airports ON airports.faa = landed.dest
LEFT JOIN planes ON planes.tailnum = landed.tailnum;

-- How many lines break each rule.
CREATE VIEW broken AS
UNPIVOT (
  SELECT
    count(*) FILTER (NOT from_new_york)     AS from_new_york,
    count(*) FILTER (NOT readable)          AS readable,
    count(*) FILTER (NOT goes_somewhere)    AS goes_somewhere,
    count(*) FILTER (NOT takes_time)        AS takes_time,
    count(*) FILTER (NOT no_time_travel)    AS no_time_travel,
    count(*) FILTER (NOT has_carrier)       AS has_carrier,
    count(*) FILTER (NOT known_destination) AS known_destination,
    count(*) FILTER (NOT known_aircraft)    AS known_aircraft
  FROM judged
) ON COLUMNS(*) INTO NAME rule VALUE failed;

CREATE TABLE unique_flights AS
SELECT * FROM judged
WHERE fate = 'written'
QUALIFY row_number() OVER (PARTITION BY time_hour, carrier, flight) = 1;

-- What the registries have told. A copy of an event says nothing new.
CREATE TABLE plane_changes AS
SELECT DISTINCT *
FROM read_json(
  getvariable('landing') || '/changes/planes/*.json',
  format = 'newline_delimited',
  columns = {
    tailnum: 'VARCHAR', changed_at: 'TIMESTAMP', operation: 'VARCHAR',
    carrier: 'VARCHAR', airport: 'VARCHAR', manufacturer: 'VARCHAR', model: 'VARCHAR'
  }
);

CREATE TABLE airline_changes AS
SELECT DISTINCT *
FROM read_json(
  getvariable('landing') || '/changes/airlines/*.json',
  format = 'newline_delimited',
  columns = {
    carrier: 'VARCHAR', changed_at: 'TIMESTAMP', operation: 'VARCHAR',
    name: 'VARCHAR', airport: 'VARCHAR', planes: 'INTEGER'
  }
);

-- The histories: of the events of a key those that say something else than the one before, each until the next.
CREATE VIEW plane_history AS
WITH steps AS (
  SELECT *, operation = 'delete' AS gone FROM plane_changes
  QUALIFY row(gone, carrier, airport, manufacturer, model) IS DISTINCT FROM
    lag(row(gone, carrier, airport, manufacturer, model)) OVER (PARTITION BY tailnum ORDER BY changed_at)
), spans AS (
  SELECT *, lead(changed_at) OVER (PARTITION BY tailnum ORDER BY changed_at) AS ended_at FROM steps
)
SELECT tailnum, carrier, airport, manufacturer, model, changed_at AS __START_AT, ended_at AS __END_AT
FROM spans WHERE NOT gone;

CREATE VIEW airline_history AS
WITH steps AS (
  SELECT *, operation = 'delete' AS gone FROM airline_changes
  QUALIFY row(gone, name, airport, planes) IS DISTINCT FROM
    lag(row(gone, name, airport, planes)) OVER (PARTITION BY carrier ORDER BY changed_at)
), spans AS (
  SELECT *, lead(changed_at) OVER (PARTITION BY carrier ORDER BY changed_at) AS ended_at FROM steps
)
SELECT carrier, name, airport, planes, changed_at AS __START_AT, ended_at AS __END_AT
FROM spans WHERE NOT gone;

-- The gold tables, under the names that they have in the pipeline.

CREATE VIEW delay_by_carrier_hour AS
SELECT
  carrier, airline, hour,
  count(*) AS flights,
  count(*) - count(dep_time) AS cancelled,
  count(*) FILTER (dep_delay > 15) AS delayed,
  avg_to_tenths(dep_delay) AS avg_dep_delay
FROM unique_flights
GROUP BY ALL;

CREATE VIEW busiest_routes AS
WITH routes AS (
  SELECT origin, dest, destination,
    count(*) AS flights, count(DISTINCT carrier) AS carriers, avg_to_tenths(arr_delay) AS avg_arr_delay
  FROM unique_flights
  GROUP BY ALL
)
SELECT 1 + (SELECT count(*) FROM routes AS busier WHERE busier.flights > routes.flights) AS place, *
FROM routes;

CREATE VIEW delay_by_visibility AS
SELECT
  CAST(floor(visib) AS INTEGER) AS visibility_miles,
  count(*) AS flights,
  count(*) - count(dep_time) AS cancelled,
  avg_to_tenths(dep_delay) AS avg_dep_delay
FROM unique_flights
LEFT JOIN weather USING (origin, time_hour)
GROUP BY ALL;

-- An hour is written when its end is not after the watermark: the latest hour of all, less two days. Departures are
-- scheduled to the whole hour in time_hour, so the window of an hour begins with it.
CREATE VIEW departures_by_hour AS
SELECT
  time_hour AS hour_start,
  time_hour + INTERVAL 1 HOUR AS hour_end,
  origin,
  count(*) AS scheduled,
  count(dep_time) AS departed
FROM unique_flights
WHERE time_hour + INTERVAL 1 HOUR <= (SELECT max(time_hour) FROM unique_flights) - INTERVAL 2 DAY
GROUP BY ALL;

-- Without a history: the newest event of the plane, and of the airline, that is not later than the departure.
CREATE VIEW delay_away_from_home AS
WITH departures AS (
  SELECT *, time_hour + to_minutes(minute + dep_delay) AS departed_at FROM unique_flights WHERE dep_time IS NOT NULL
), flown AS (
  SELECT
    f.carrier, f.origin, f.tailnum, f.dep_delay,
    CASE WHEN a.operation <> 'delete' THEN a.name END    AS airline,
    CASE WHEN a.operation <> 'delete' THEN a.airport END AS airline_home,
    CASE WHEN a.operation <> 'delete' THEN a.planes END  AS fleet,
    CASE WHEN p.operation <> 'delete' THEN p.airport END AS plane_home,
    CASE WHEN p.operation <> 'delete' THEN p.carrier END AS flown_by
  FROM departures AS f
  ASOF LEFT JOIN plane_changes AS p ON p.tailnum = f.tailnum AND f.departed_at >= p.changed_at
  ASOF LEFT JOIN airline_changes AS a ON a.carrier = f.carrier AND f.departed_at >= a.changed_at
)
SELECT
  carrier, airline, airline_home, plane_home, origin,
  count(*) AS flights,
  count(DISTINCT tailnum) AS planes,
  count(*) FILTER (carrier <> flown_by) AS flown_for_others,
  max(fleet) AS largest_fleet,
  sum(dep_delay) AS minutes_late
FROM flown
GROUP BY carrier, airline, airline_home, plane_home, origin;
