{# dbt run-operation tuskml_rollback --args '{model: late_models}'

   Undoes the last deployment of a model, or that of one of its groups. The versions that it withdraws are neither deployed
   nor trained again until rows or options change. #}
{% macro tuskml_rollback(model, group=none) %}
  {% set nodes = [] %}
  {% for node in tuskml.model_nodes() if node.name == model %}{% do nodes.append(node) %}{% endfor %}
  {% if not nodes %}
    {% set names = tuskml.model_nodes() | map(attribute='name') | sort | join(', ') or 'none' %}
    {% do exceptions.raise_compiler_error(
        "tuskml_rollback: model is '" ~ model ~ "', expected a model of materialization 'model': " ~ names) %}
  {% endif %}
  {% set refusal = tuskml.deployment_refused() %}
  {% if refusal %}{% do exceptions.raise_compiler_error('tuskml_rollback: ' ~ refusal) %}{% endif %}
  {% set name = tuskml.registry_name(nodes[0]) %}
  {% do tuskml.run_and_commit(tuskml.rollback_statement(name, group)) %}
  {% do tuskml.hold_deployed(nodes[0]) %}
  {% do log('tuskml: rolled back ' ~ name, info=true) %}
{% endmacro %}
