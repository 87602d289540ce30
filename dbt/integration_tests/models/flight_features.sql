-- What is known when a flight leaves. Of every five days of a month one is held out.
select
    carrier,
    date,
    arr_delay > 15 as late,
    dep_delay,
    distance,
    hour,
    extract(day from date) in (5, 10, 15, 20, 25, 30) as held_out
from {{ ref('flights') }}
