{# For the test no_drift_from: rows of a relation by bin, the edges being a table `edges`. #}
{% macro shares(relation, column, bins) %}
    select 0
    {%- for bin in range(1, bins) %} + case when r.{{ column }} > e.e{{ bin }} then 1 else 0 end{% endfor %} as bin,
           cast(count(*) as double precision) as n
    from {{ relation }} as r cross join edges as e where r.{{ column }} is not null group by 1
{% endmacro %}
