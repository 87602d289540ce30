{# Every model's status is one of those allowed. #}
{% test model_status_ok(model, column_name='model', allowed=['ok', 'constant feature', 'collinear features']) %}
select * from {{ model }}
where coalesce(({{ column_name }}).status, 'no model') not in (
    {%- for status in allowed %}{{ tuskml.literal(status) }}{{ ', ' if not loop.last }}{% endfor -%}
)
{% endtest %}
