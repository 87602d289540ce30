{# A query: one row per penalty and feature with a weight of the paths of a relation's models of lasso, elastic_net or
   sparse_logistic, the largest penalty first. A penalty at which all weights are 0 has one row without a feature.

   keys: columns to keep; column: that of the model. Models that were trained on names have them in `term`. #}
{% macro model_path(relation, keys=[], column='model') %}
  {{ return(adapter.dispatch('model_path', 'tuskml')(relation, keys, column)) }}
{% endmacro %}

{% macro default__model_path(relation, keys=[], column='model') %}
  {% set keys = [keys] if keys is string else keys %}
select {{ tuskml.columns_of('m', keys) }}
    p.step, p.penalty, p.loss, p.held_out, p.held_out_error, p.intercept, p.chosen, p.features[entry.place] as feature,
    coalesce((m.{{ column }}).features[p.features[entry.place]], 'x' || p.features[entry.place]) as term,
    p.weights[entry.place] as weight
from {{ relation }} as m
cross join lateral {{ tuskml.ours('model_path') }}(m.{{ column }}) as p
cross join lateral (select {{ tuskml.numbers_to('greatest(p.n_weights, 1)') }} as place) as entry
{% endmacro %}
