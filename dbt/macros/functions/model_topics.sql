{# A query: the most probable words of the topics of a relation's models, the best first.

   keys: columns to keep; words: how many of each topic; column: that of the model. #}
{% macro model_topics(relation, keys=[], words=10, column='model') %}
  {{ return(adapter.dispatch('model_topics', 'tuskml')(relation, keys, words, column)) }}
{% endmacro %}

{% macro default__model_topics(relation, keys=[], words=10, column='model') %}
select
{%- for key in ([keys] if keys is string else keys) %}
    m.{{ key }},
{%- endfor %}
    t.topic, t.rank, t.word, t.probability
from {{ relation }} as m, lateral {{ tuskml.ours('model_topics') }}(m.{{ column }}, {{ words }}) as t
{% endmacro %}
