{# What a run did, a row a model, in the table tuskml_runs of the target's schema, and in the log. #}
{% macro summary_of(node, seen) %}
  {% set name = tuskml.registry_name(node) %}
  {% set relation = tuskml.relation_of(node) %}
  {% set found = {'groups': 0, 'waiting': 0, 'not_ok': 0} %}
  {% if load_relation(relation) is not none %}
    {% set row = run_query("
      select count(*), count(case when m.stage = 'candidate' then 1 end),
             count(case when not (m.model).converged then 1 end)
      from " ~ relation ~ ' as t join tuskml.models as m on m.group_key = t.group_key and m.version = t.version
      where m.name = ' ~ tuskml.literal(name)).rows[0] %}
    {% do found.update({'groups': row[0] | int, 'waiting': row[1] | int, 'not_ok': row[2] | int}) %}
  {% endif %}
  {{ return({
      'invocation_id': invocation_id, 'run_started_at': run_started_at.strftime('%Y-%m-%d %H:%M:%S'), 'model': name,
      'built': seen['built'], 'models': found['groups'], 'trained': seen['trained'], 'deployed': seen['deployed'],
      'waiting': found['waiting'], 'not_converged': found['not_ok'], 'tests_passed': seen['passed'],
      'tests_failed': seen['failed'], 'tests_not_run': seen['not_run'], 'held_back': seen['held_back'],
  }) }}
{% endmacro %}

{# failures: by model, the tests that failed, for the log. #}
{% macro keep_summary(rows, failures) %}
  {% set types = {'invocation_id': 'text', 'run_started_at': 'timestamp', 'model': 'text', 'built': 'text', 'held_back': 'text'} %}
  {% set relation = api.Relation.create(database=target.database, schema=target.schema, identifier='tuskml_runs') %}
  {% set columns = [] %}
  {% for column in rows[0] %}{% do columns.append(column ~ ' ' ~ types.get(column, 'integer')) %}{% endfor %}
  {% set values = [] %}
  {% for row in rows %}
    {% set items = [] %}
    {% for column, value in row.items() %}
      {% do items.append(tuskml.literal(value) if column in types else value | string) %}
    {% endfor %}
    {% do values.append('(' ~ items | join(', ') ~ ')') %}
    {% set kept = '; deployed stays what was' if row['tests_failed'] and row['waiting'] else '' %}
    {% set held = ', held back: ' ~ row['held_back'] if row['held_back'] else '' %}
    {% set failed = ' (' ~ failures[row['model']] ~ ')' if failures.get(row['model']) else '' %}
    {% do log('tuskml: ' ~ row['model'] ~ ': ' ~ row['models'] ~ ' models, ' ~ row['trained'] ~ ' trained, '
              ~ row['deployed'] ~ ' deployed, ' ~ row['waiting'] ~ ' waiting' ~ held ~ '; tests: ' ~ row['tests_passed']
              ~ ' passed, ' ~ row['tests_failed'] ~ ' failed' ~ failed ~ ', ' ~ row['tests_not_run'] ~ ' not run' ~ kept,
              info=true) %}
  {% endfor %}
  {% do tuskml.run_and_commit('create table if not exists ' ~ relation ~ ' (' ~ columns | join(', ') ~ ')') %}
  {% set there = adapter.get_columns_in_relation(relation) | map(attribute='name') | list %}
  {% for column in columns if column.split(' ')[0] not in there %}  {# the table of an earlier version #}
    {% do tuskml.run_and_commit('alter table ' ~ relation ~ ' add column ' ~ column) %}
  {% endfor %}
  {% do tuskml.run_and_commit('insert into ' ~ relation ~ ' (' ~ rows[0].keys() | join(', ') ~ ') values ' ~ values | join(', ')) %}
{% endmacro %}
