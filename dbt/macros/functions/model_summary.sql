{# A query: one row a coefficient of each model of a relation, the intercept first.

   keys: columns to keep; names: what the features are called, else x1, x2, ...; column: that of the model. #}
{% macro model_summary(relation, keys=[], names=[], column='model') %}
  {{ return(adapter.dispatch('model_summary', 'tuskml')(relation, keys, names, column)) }}
{% endmacro %}

{% macro default__model_summary(relation, keys=[], names=[], column='model') %}
select
{%- for key in ([keys] if keys is string else keys) %}
    m.{{ key }},
{%- endfor %}
    s.feature,
{%- if names %}
    case s.feature
        {%- for name in names %}
        when {{ loop.index }} then {{ tuskml.literal(name) }}
        {%- endfor %}
        else s.term
    end as term,
{%- else %}
    s.term,
{%- endif %}
    s.estimate, s.std_err, s.test, s.statistic, s.p_value, s.lower, s.upper, s.ratio
from {{ relation }} as m, lateral {{ tuskml.ours('model_summary') }}(m.{{ column }}) as s
{% endmacro %}
