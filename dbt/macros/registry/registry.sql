{# The registry of this database. DuckDB's is made by the plugin tuskml.dbt. #}
{% macro ensure_registry() %}{{ adapter.dispatch('ensure_registry', 'tuskml')() }}{% endmacro %}

{% macro default__ensure_registry() %}
  {% set found = run_query("select pg_catalog.to_regclass('tuskml.models') is not null") %}
  {% if not found.rows[0][0] %}
    {% set extension = run_query("select count(*) from pg_catalog.pg_extension where extname = 'tuskml'") %}
    {% if not extension.rows[0][0] | int %}
      {% do exceptions.raise_compiler_error(
          'the database ' ~ target.dbname ~ ' has no extension tuskml: tuskml postgres install --database ' ~ target.dbname
          ~ ', or CREATE EXTENSION tuskml_train CASCADE as superuser where it is installed') %}
    {% endif %}
    {% do tuskml.run_and_commit('select ' ~ tuskml.ours('create_registry') ~ '()') %}
  {% endif %}
{% endmacro %}

{% macro duckdb__ensure_registry() %}
  {% set found = run_query("select count(*) from duckdb_tables() where database_name = current_database()
                            and schema_name = 'tuskml' and table_name = 'models'") %}
  {% if not found.rows[0][0] | int %}
    {% do exceptions.raise_compiler_error(
        "the database has no registry of models: the profile needs plugins: [{module: tuskml.dbt}]") %}
  {% endif %}
{% endmacro %}

{# Why this user may not deploy, with the GRANT that mends it; '' where the user may. DuckDB has no users. #}
{% macro deployment_refused() %}{{ return(adapter.dispatch('deployment_refused', 'tuskml')()) }}{% endmacro %}

{% macro duckdb__deployment_refused() %}{{ return('') }}{% endmacro %}

{% macro default__deployment_refused() %}
  {% set found = run_query("
    select pg_catalog.has_column_privilege(c.oid, 'stage', 'UPDATE')
             and pg_catalog.has_column_privilege(c.oid, 'deployed_at', 'UPDATE'),
           current_user::text, pg_catalog.quote_ident(current_user), pg_catalog.pg_get_userbyid(c.relowner)::text
    from pg_catalog.pg_class as c where c.oid = pg_catalog.to_regclass('tuskml.models')").rows %}
  {% if not found or found[0][0] %}{{ return('') }}{% endif %}
  {{ return(found[0][1] ~ ' may not deploy models: GRANT UPDATE (stage, deployed_at) ON tuskml.models TO '
            ~ found[0][2] ~ ' lets it, which ' ~ found[0][3] ~ ' may do') }}
{% endmacro %}

{# A statement that fails with a sentence. #}
{% macro raising(sentence) %}
  {{ return('do $tuskml$ begin raise exception using errcode = ' ~ tuskml.literal('insufficient_privilege') ~ ', message = '
            ~ tuskml.literal(sentence) ~ '; end $tuskml$') }}
{% endmacro %}

{% macro rollback_statement(name, group=none) %}
  {{ return(adapter.dispatch('rollback_statement', 'tuskml')(name, group)) }}
{% endmacro %}

{% macro default__rollback_statement(name, group=none) %}
  {{ return('select ' ~ tuskml.ours('rollback') ~ '(' ~ tuskml.literal(name)
            ~ ('' if group is none else ', in_group => ' ~ tuskml.literal(group)) ~ ') as changed') }}
{% endmacro %}

{% macro duckdb__rollback_statement(name, group=none) %}
  {{ return('insert or replace into tuskml.models by name from ' ~ tuskml.ours('rollback') ~ '(' ~ tuskml.literal(name)
            ~ ('' if group is none else ', in_group := ' ~ tuskml.literal(group)) ~ ')') }}
{% endmacro %}

{# The project's models of materialization `model`. #}
{% macro model_nodes() %}
  {% set found = [] %}
  {% for node in graph.nodes.values() if node.resource_type == 'model' and node.config.materialized == 'model' %}
    {% do found.append(node) %}
  {% endfor %}
  {{ return(found) }}
{% endmacro %}

{% macro relation_of(node) %}
  {{ return(api.Relation.create(database=node.database, schema=node.schema, identifier=node.alias, type='table')) }}
{% endmacro %}

{# Lets a model's relation hold what is deployed, in place: its rights and comments stay. #}
{% macro hold_deployed(node) %}
  {% set relation = tuskml.relation_of(node) %}
  {% set keys = node.config.get('group_by') or (node.config.get('meta') or {}).get('group_by') or [] %}
  {% set keys = [keys] if keys is string else keys %}
  {% set deployed = tuskml.newest_models(tuskml.registry_name(node), keys, relation, ['deployed']) %}
  {% set copy = 'tusk_held_' ~ local_md5(relation | string)[:12] %}
  {% for statement_of in [
      'drop table if exists ' ~ copy, 'create temporary table ' ~ copy ~ ' as ' ~ deployed, 'delete from ' ~ relation,
      'insert into ' ~ relation ~ ' select * from ' ~ copy, 'drop table ' ~ copy] %}
    {% call statement('tuskml_held', auto_begin=true) %}{{ statement_of }}{% endcall %}
  {% endfor %}
  {% do adapter.commit() %}
{% endmacro %}
