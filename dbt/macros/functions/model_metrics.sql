{# A query of the metrics of a table of models as columns: the keys, group_key, version, and a number per metric.

   metrics: their names; by default all that a model of the relation has, which a run finds there. #}
{% macro model_metrics(relation, keys=[], metrics=none) %}
  {% set keys = [keys] if keys is string else keys %}
  {% set names = [] if metrics is none else metrics %}
  {% if metrics is none and execute %}
    {% set found = run_query('select distinct ' ~ tuskml.json_keys('m.metrics') ~ ' as name from ' ~ relation ~ ' as m order by 1') %}
    {% set names = found.columns[0].values() | reject('equalto', 'on') | list %}
  {% endif %}
    select
      {%- for key in keys %}
      m.{{ key }},
      {%- endfor %}
      m.group_key, m.version
      {%- for name in names %},
      cast(m.metrics ->> '{{ name }}' as double precision) as {{ adapter.quote(name) }}
      {%- endfor %}
    from {{ relation }} as m
{% endmacro %}
