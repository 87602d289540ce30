{# A table of models, one a group, of which each run trains those whose rows, options or recipe changed.

   Every version lies in the registry tuskml.models. The relation holds each group's newest version, the one that tests
   look at; what is deployed there changes when all of them have passed (macros/registry/deploy.sql). #}
{% materialization model, default %}
  {%- set target_relation = this.incorporate(type='table') -%}
  {%- set existing_relation = load_cached_relation(this) -%}
  {%- set intermediate_relation = make_intermediate_relation(target_relation) -%}
  {%- set backup_type = 'table' if existing_relation is none else existing_relation.type -%}
  {%- set backup_relation = make_backup_relation(target_relation, backup_type) -%}
  {%- set grants = config.get('grants') -%}
  {{ drop_relation_if_exists(load_cached_relation(intermediate_relation)) }}
  {{ drop_relation_if_exists(load_cached_relation(backup_relation)) }}
  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}

  {%- set settings = tuskml.model_settings() -%}
  {%- set place = tuskml.model_place() -%}
  {%- set gates = tuskml.model_gates(settings) -%}
  {%- set name = tuskml.registry_name(model) -%}
  {%- set recipe = tuskml.recipe_of(settings) -%}
  {% call statement('begin') %}select 1{% endcall %}
  {% do tuskml.take_rows(settings, sql) %}
  {%- set found = tuskml.find_due(settings, name, recipe) -%}
  {% if found['due'] %}
    {% if place %}
      {# dbt lets a materialization alone run Python. #}
      {% call statement('train', language='python') %}{{ tuskml.python_on_workers(settings, place) }}{% endcall %}
      {% do tuskml.hear_workers() %}
    {% else %}
      {% do tuskml.train_due(settings) %}
    {% endif %}
    {%- set trained = tuskml.usable_models() -%}
    {% if trained < found['due'] %}
      {% do exceptions.warn('tuskml: ' ~ (found['due'] - trained) ~ ' of the ' ~ found['due'] ~ ' groups of ' ~ name ~ ' have no model: '
         ~ 'no row of theirs has label and features and is not held out') %}
    {% endif %}
    {% do tuskml.evaluate_trained(settings) %}
    {% do tuskml.register_trained(name, recipe) %}
  {% endif %}
  {%- set held = tuskml.find_held(name, gates) if gates else '' -%}
  {%- set newest = tuskml.newest_models(
      name, settings['group_by'], tuskml.temporary('groups'), held=tuskml.temporary('held') if held else none) -%}
  {% do run_query(get_create_table_as_sql(False, intermediate_relation, newest)) %}
  {%- set message = 'TRAIN ' ~ found['due'] ~ ' of ' ~ found['groups'] ~ ('; held back: ' ~ held if held else '') -%}
  {% call noop_statement('main', message, 'TRAIN', found['due']) %}{{ newest }}{% endcall %}

  {% if existing_relation is not none %}
    {# DuckDB renames no table that has an index. #}
    {% if adapter.type() == 'duckdb' %}{% do drop_indexes_on_relation(existing_relation) %}{% endif %}
    {{ adapter.rename_relation(existing_relation, backup_relation) }}
  {% endif %}
  {{ adapter.rename_relation(intermediate_relation, target_relation) }}
  {% do create_indexes(target_relation) %}
  {% for part in ['rows', 'groups', 'trained', 'metrics', 'held', 'said'] %}
    {% do run_query('drop table if exists ' ~ tuskml.temporary(part)) %}
  {% endfor %}

  {{ run_hooks(post_hooks, inside_transaction=True) }}
  {% do apply_grants(target_relation, grants, should_revoke=should_revoke(existing_relation, full_refresh_mode=True)) %}
  {% do persist_docs(target_relation, model) %}
  {{ adapter.commit() }}
  {{ drop_relation_if_exists(backup_relation) }}
  {{ run_hooks(post_hooks, inside_transaction=False) }}
  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}
