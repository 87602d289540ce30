{# A metric of each model is at least a minimum: f1_macro or accuracy of more than two classes, r2 of numbers. A model
   without that metric fails. #}
{% test metric_at_least(model, metric, minimum, column_name='metrics') %}
select * from {{ model }}
where not coalesce(cast({{ column_name }} ->> {{ tuskml.literal(metric) }} as double precision) >= {{ minimum }}, false)
{% endtest %}
