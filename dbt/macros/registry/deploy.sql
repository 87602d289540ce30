{# Before a run: the registry, and a word to who may train but not deploy. #}
{% macro before_run() %}
  {% if execute and tuskml.model_nodes() %}
    {% do tuskml.ensure_registry() %}
    {% set refusal = tuskml.deployment_refused() %}
    {% if refusal %}{% do log('tuskml: ' ~ refusal ~ '; what is trained waits as candidates', info=true) %}{% endif %}
  {% endif %}
{% endmacro %}

{# After a run: deploys the models whose tests all passed in it, and says so. Where one failed the relation goes back to
   what is deployed. A model without tests is deployed when it was built; `dbt run` deploys nothing that has tests, the
   `dbt test` that follows does.

   Where the user may not deploy, this answers a statement that fails with a sentence: of an error raised in here dbt says
   "keyboard interrupt". #}
{% macro after_run(results) %}
  {% if execute %}
    {% set refusal = tuskml.deployment_refused() if tuskml.model_nodes() else '' %}
    {% set refused = [] %}
    {% set statuses = {} %}
    {% for result in results %}{% do statuses.update({result.node.unique_id: result}) %}{% endfor %}
    {% set rows = [] %}
    {% set failures = {} %}
    {% for node in tuskml.model_nodes() %}
      {% set seen = tuskml.outcome(node, statuses) %}
      {% if seen['touched'] %}
        {% if refusal and seen['good'] %}
          {% if tuskml.count_candidates(node) %}{% do refused.append(tuskml.registry_name(node)) %}{% endif %}
          {% do seen.update({'good': false}) %}
        {% endif %}
        {% do seen.update({'deployed': tuskml.deploy_candidates(node) if seen['good'] else 0}) %}
        {% set row = tuskml.summary_of(node, seen) %}
        {% do rows.append(row) %}
        {% do failures.update({row['model']: seen['failures']}) %}
        {% if seen['failed'] and row['waiting'] %}{% do tuskml.hold_deployed(node) %}{% endif %}
      {% endif %}
    {% endfor %}
    {% if rows %}{% do tuskml.keep_summary(rows, failures) %}{% endif %}
    {% if refused %}{{ tuskml.raising('tuskml: ' ~ refusal ~ '; candidates wait: ' ~ refused | join(', ')) }}{% endif %}
  {% endif %}
{% endmacro %}

{# What a run did with a model: whether it was built or tested, how its tests ended, and whether it may be deployed. #}
{% macro outcome(node, statuses) %}
  {% set built = statuses.get(node.unique_id) %}
  {% set counts = {'passed': 0, 'failed': 0, 'not_run': 0} %}
  {% set failures = [] %}
  {% for test in graph.nodes.values() if test.resource_type == 'test' and node.unique_id in test.depends_on.nodes %}
    {% set result = statuses.get(test.unique_id) %}
    {% set status = 'none' if result is none else result.status | string %}
    {% set kind = 'passed' if status in ['pass', 'warn'] else 'failed' if status in ['fail', 'error'] else 'not_run' %}
    {% do counts.update({kind: counts[kind] + 1}) %}
    {% if kind == 'failed' %}{% do failures.append(tuskml.failure_of(test, result, node)) %}{% endif %}
  {% endfor %}
  {% set ok = built is none or built.status | string == 'success' %}
  {{ return({
      'touched': built is not none or counts['passed'] + counts['failed'] > 0,
      'good': ok and counts['failed'] == 0 and counts['not_run'] == 0,
      'trained': 0 if built is none else built.adapter_response.get('rows_affected', 0) | int,
      'built': 'not built' if built is none else built.status | string,
      'passed': counts['passed'], 'failed': counts['failed'], 'not_run': counts['not_run'],
      'failures': failures | join('; '), 'held_back': tuskml.held_back_in(built),
  }) }}
{% endmacro %}

{# What a test that failed is called, with the groups that failed it where it is one of ours on the model's own table. #}
{% macro failure_of(test, result, node) %}
  {% set about = test.test_metadata or {} %}
  {% set ours = about.namespace == 'tuskml' and about.name in ['auc_at_least', 'metric_at_least', 'model_converged', 'model_status_ok'] %}
  {% if not ours or result.status | string != 'fail' or test.attached_node != node.unique_id or about.kwargs.get('label') %}
    {{ return(test.name) }}
  {% endif %}
  {% set rows = run_query('select group_key from (' ~ result.node.compiled_code ~ '\n) as failed order by 1').rows %}
  {% set groups = [] %}
  {% for row in (rows | list)[:10] if row[0] %}{% do groups.append(row[0]) %}{% endfor %}
  {% if rows | length > 10 %}{% do groups.append('and ' ~ (rows | length - 10) ~ ' more') %}{% endif %}
  {{ return(about.name ~ (': ' ~ groups | join(', ') if groups else '')) }}
{% endmacro %}

{# The groups that gates held back in this run, as the model's message says: dbt hands a hook nothing else of a node. #}
{% macro held_back_in(built) %}
  {% set message = '' if built is none else built.message | string %}
  {{ return(message.split('; held back: ', 1)[1] if '; held back: ' in message else '') }}
{% endmacro %}

{# Deploys the candidates among the versions that the relation holds; returns how many. Who deployed another version by
   hand keeps it until there is a candidate. #}
{% macro deploy_candidates(node) %}
  {% set name = tuskml.literal(tuskml.registry_name(node)) %}
  {% set candidates = tuskml.candidates_of(node) %}
  {% set count = tuskml.count_candidates(node) %}
  {% if count %}
    {% call statement('retire', auto_begin=true) %}
      update tuskml.models as m set stage = 'retired' from ({{ candidates }}) as n
      where m.name = {{ name }} and m.group_key = n.group_key and m.stage = 'deployed'
    {% endcall %}
    {% call statement('deploy', auto_begin=true) %}
      update tuskml.models as m set stage = 'deployed', deployed_at = {{ tuskml.moment(name) }}
      from ({{ candidates }}) as n
      where m.name = {{ name }} and m.group_key = n.group_key and m.version = n.version
    {% endcall %}
    {% do adapter.commit() %}
  {% endif %}
  {{ return(count) }}
{% endmacro %}

{% macro candidates_of(node) %}
  {{ return('select c.group_key, c.version from ' ~ tuskml.relation_of(node) ~ ' as t join tuskml.models as c '
     ~ "on c.group_key = t.group_key and c.version = t.version where c.stage = 'candidate' and c.name = "
     ~ tuskml.literal(tuskml.registry_name(node))) }}
{% endmacro %}

{% macro count_candidates(node) %}
  {{ return(run_query('select count(*) from (' ~ tuskml.candidates_of(node) ~ ') as found').rows[0][0] | int) }}
{% endmacro %}

{# Now, and later than any deployment before. #}
{% macro moment(name) %}{{ return(adapter.dispatch('moment', 'tuskml')(name)) }}{% endmacro %}
{% macro default__moment(name) %}
  {{ return("(select greatest(clock_timestamp(), max(deployed_at) + interval '1 microsecond') "
            ~ 'from tuskml.models where name = ' ~ name ~ ')') }}
{% endmacro %}
{% macro duckdb__moment(name) %}
  {{ return('(select greatest(make_timestamp(epoch_us(now())), max(deployed_at) + interval 1 microsecond) '
            ~ 'from tuskml.models where name = ' ~ name ~ ')') }}
{% endmacro %}
