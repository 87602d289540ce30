{# A query: what the searches of a relation's models tried, one row per candidate and fold, and one with fold null per
   candidate with the mean of its metric.

   keys: columns to keep; column: that of the model. #}
{% macro model_trials(relation, keys=[], column='model') %}
  {{ return(adapter.dispatch('model_trials', 'tuskml')(relation, keys, column)) }}
{% endmacro %}

{% macro default__model_trials(relation, keys=[], column='model') %}
select
{%- for key in ([keys] if keys is string else keys) %}
    m.{{ key }},
{%- endfor %}
    t.configuration, t.fold, t.iterations, t.metric, t.std_err, t.seconds, t.status, t.rows, t.chosen
from {{ relation }} as m, lateral {{ tuskml.ours('model_trials') }}(m.{{ column }}) as t
{% endmacro %}
