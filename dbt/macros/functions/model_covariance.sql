{# A query: the covariances of the coefficients of each model of a relation, one row a pair of terms. The models have the option
   intervals: covariance.

   keys: columns to keep; column: that of the model. #}
{% macro model_covariance(relation, keys=[], column='model') %}
  {{ return(adapter.dispatch('model_covariance', 'tuskml')(relation, keys, column)) }}
{% endmacro %}

{% macro default__model_covariance(relation, keys=[], column='model') %}
select {{ tuskml.columns_of('m', [keys] if keys is string else keys) }}
    c.term, c.with_term, c.covariance
from {{ relation }} as m, lateral {{ tuskml.ours('model_covariance') }}(m.{{ column }}) as c
{% endmacro %}
