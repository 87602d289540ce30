select carrier, {{ tuskml.explain_training('logistic', 'late', ['dep_delay', 'distance', 'hour']) }} as plan
from {{ ref('flight_features') }} where carrier = 'AA' group by carrier
