{# A query: for each user of a relation the best items, the best first by `score`.

   relation: where the model of a matrix factorization is, or with keys one per group; users: a relation with users, each of
   whom counts once; user: its column; n: items for each user; seen: a relation with users and items that are left out, such
   as the training rows; item: the column of items in it; keys: columns of groups, which all these relations have; column:
   that of the model. #}
{% macro recommend(relation, users, user='user', n=10, seen=none, item='item', keys=[], column='model') %}
  {{ return(adapter.dispatch('recommend', 'tuskml')(relation, users, user, n, seen, item, keys, column)) }}
{% endmacro %}

{% macro default__recommend(relation, users, user='user', n=10, seen=none, item='item', keys=[], column='model') %}
  {% set keys = [keys] if keys is string else keys %}
select {{ tuskml.columns_of('u', keys) }} u.{{ user }}, r.item, r.score, r.basis
from (select distinct {{ tuskml.columns_of(none, keys) }} {{ user }} from {{ users }} where {{ user }} is not null) as u
join {{ relation }} as m on {{ tuskml.equal_columns('u', 'm', keys) }}
{%- if seen is not none %}
left join (
    select {{ tuskml.columns_of(none, keys) }} {{ user }}, array_agg({{ item }}) as items
    from {{ seen }} group by {{ tuskml.columns_of(none, keys) }} {{ user }}
) as s on {{ tuskml.equal_columns('u', 's', keys + [user]) }}
{%- endif %}
cross join lateral {{ tuskml.ours('recommend') }}(m.{{ column }}, u.{{ user }}, {{ n }}{{ ', exclude => s.items' if seen is not none }}) as r
{% endmacro %}

{# A query: for each item of a relation the most similar ones, by the cosine of their factors.

   relation: as of recommend; items: a relation with items, each of which counts once; item: its column; n: similar items for
   each; keys and column: as of recommend. The item has the name of its column, and the similar one is `similar_item`. #}
{% macro similar_items(relation, items, item='item', n=10, keys=[], column='model') %}
  {{ return(adapter.dispatch('similar_items', 'tuskml')(relation, items, item, n, keys, column)) }}
{% endmacro %}

{% macro default__similar_items(relation, items, item='item', n=10, keys=[], column='model') %}
  {% set keys = [keys] if keys is string else keys %}
select {{ tuskml.columns_of('i', keys) }} i.{{ item }}, r.item as similar_item, r.score
from (select distinct {{ tuskml.columns_of(none, keys) }} {{ item }} from {{ items }} where {{ item }} is not null) as i
join {{ relation }} as m on {{ tuskml.equal_columns('i', 'm', keys) }}
cross join lateral {{ tuskml.ours('similar_items') }}(m.{{ column }}, i.{{ item }}, {{ n }}) as r
{% endmacro %}
