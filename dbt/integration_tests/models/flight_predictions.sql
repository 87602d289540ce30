select
    f.carrier, f.date, f.late, f.held_out,
    {{ tuskml.predict('m.model', ['f.dep_delay', 'f.distance', 'f.hour'], answer='probability') }} as probability
from {{ ref('flight_features') }} as f
join {{ ref('late_models') }} as m on m.carrier = f.carrier
