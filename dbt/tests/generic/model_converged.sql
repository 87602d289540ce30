{# Every model has converged; a group without a model has not. #}
{% test model_converged(model, column_name='model') %}
select * from {{ model }} where not coalesce(({{ column_name }}).converged, false)
{% endtest %}
