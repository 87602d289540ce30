{# The AUC is at least a minimum: that in the metrics of each model, or, with label and score, that of a relation of
   predictions, by group. Without an AUC (one class only) the test fails. #}
{% test auc_at_least(model, minimum, column_name='metrics', label=none, score=none, group_by=[]) %}
{% if label is none %}
select * from {{ model }} where coalesce(cast({{ column_name }} ->> 'auc' as double precision), 0) < {{ minimum }}
{% else %}
{% set keys = [group_by] if group_by is string else group_by %}
select {% for key in keys %}{{ key }}, {% endfor %}auc({{ label }}, {{ score }}) as auc from {{ model }}
{% if keys %}group by {{ keys | join(', ') }}{% endif %}
having coalesce(auc({{ label }}, {{ score }}), 0) < {{ minimum }}
{% endif %}
{% endtest %}
