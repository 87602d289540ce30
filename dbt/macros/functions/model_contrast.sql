{# A query: a weighted sum of the coefficients of each model of a relation, with its standard error, test and interval. The models
   have the option intervals: covariance.

   weights: numbers by the terms of model_summary; keys: columns to keep; column: that of the model. #}
{% macro model_contrast(relation, weights, keys=[], column='model') %}
  {{ return(adapter.dispatch('model_contrast', 'tuskml')(relation, weights, keys, column)) }}
{% endmacro %}

{% macro default__model_contrast(relation, weights, keys=[], column='model') %}
select {{ tuskml.columns_of('m', [keys] if keys is string else keys) }}
    c.*
from {{ relation }} as m, lateral {{ tuskml.ours('model_contrast') }}(m.{{ column }}, {{ tuskml.literal(tojson(weights, sort_keys=true)) }}) as c
{% endmacro %}
