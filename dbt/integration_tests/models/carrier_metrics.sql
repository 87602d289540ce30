select
    f.carrier, count(*) as flights,
    {{ tuskml.evaluate('logistic', 'f.late', 'm.model', ['f.dep_delay', 'f.distance', 'f.hour']) }}
from {{ ref('flight_features') }} as f
join {{ ref('late_models') }} as m on m.carrier = f.carrier
where f.held_out
group by f.carrier
