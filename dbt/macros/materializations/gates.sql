{# Gates: what a group's newest version must reach before the table, and with it a deployment, takes it. A group that does
   not keeps the version that is deployed. Gates are no part of the recipe: another bound trains nothing again. #}

{# The gates of a model's config, checked: a bound by metric, `rows` (of the metrics) or `converged`. #}
{% macro model_gates(settings) %}
  {% set task = settings['task'] %}
  {% set meta = config.get('meta', {}) or {} %}
  {% set gates = config.get('gates', meta.get('gates')) or {} %}
  {% if gates is not mapping %}
    {% do exceptions.raise_compiler_error(
        'gates is ' ~ gates ~ ", expected a mapping such as {'auc': 0.75, 'rows': 100, 'converged': true}") %}
  {% endif %}
  {% if gates and task in tuskml.known_tasks() %}
    {% set names = (tuskml.metric_names(task, settings['options']) + ['rows', 'converged']) | sort %}
    {% for name, bound in gates.items() %}{% do tuskml.check_gate(name, bound, names) %}{% endfor %}
  {% endif %}
  {{ return(gates) }}
{% endmacro %}

{% macro check_gate(name, bound, names) %}
  {% if name not in names %}
    {% set near = names | map('string') | list %}
    {% set hints = [] %}
    {% for ours in near if tuskml.likeness(name | string, ours) >= 0.5 %}{% do hints.append(ours) %}{% endfor %}
    {% do exceptions.raise_compiler_error(
        "gates has '" ~ name ~ "', expected " ~ names[:-1] | join(', ') ~ ' or ' ~ names[-1]
        ~ ('; did you mean ' ~ hints[0] ~ '?' if hints else '')) %}
  {% elif name == 'converged' %}
    {% if bound is not boolean %}
      {% do exceptions.raise_compiler_error('the gate converged is ' ~ bound ~ ', expected true') %}
    {% endif %}
  {% elif bound is boolean or bound is not number %}
    {% do exceptions.raise_compiler_error(
        'the gate ' ~ name ~ ' is ' ~ ("'" ~ bound ~ "'" if bound is string else bound) ~ ', expected a number: '
        ~ tuskml.gate_bound(name, 0.75)) %}
  {% endif %}
{% endmacro %}

{% macro gate_bound(name, bound) %}
  {{ return(('at most ' if name in tuskml.lower_is_better() else 'at least ') ~ bound) }}
{% endmacro %}

{# A gate's value, SQL over a row `m` of the registry. #}
{% macro gate_value(name) %}
  {{ return("cast(m.metrics ->> '" ~ name ~ "' as double precision)") }}
{% endmacro %}

{# Whether a row `m` of the registry passes a gate; a metric without a value does not. #}
{% macro gate_condition(name, bound) %}
  {% if name == 'converged' %}
    {{ return('coalesce((m.model).converged, false)' if bound else 'true') }}
  {% endif %}
  {% set sign = ' <= ' if name in tuskml.lower_is_better() else ' >= ' %}
  {{ return('coalesce(' ~ tuskml.gate_value(name) ~ sign ~ bound ~ ', false)') }}
{% endmacro %}

{# Which of the groups are held back: their newest version is a candidate that does not pass. A temporary table, with what
   each gate saw. #}
{% macro find_held(name, gates) %}
  {% set query %}
    with newest as (
      select m.*, row_number() over (partition by m.group_key order by m.version desc) as place
      from tuskml.models as m
      where m.name = {{ tuskml.literal(name) }} and m.stage in ('candidate', 'deployed', 'retired')
    )
    select m.group_key
      {%- for gate, bound in gates.items() %}
      , {{ tuskml.gate_condition(gate, bound) }} as passed_{{ loop.index }}
      , {{ 'null' if gate == 'converged' else tuskml.gate_value(gate) }} as value_{{ loop.index }}
      {%- endfor %}
    from newest as m join {{ tuskml.temporary('groups') }} as g on g.group_key = m.group_key
    where m.place = 1 and m.stage = 'candidate' and not (true
      {%- for gate, bound in gates.items() %} and {{ tuskml.gate_condition(gate, bound) }}{% endfor %})
  {% endset %}
  {% do tuskml.create_temporary('held', query) %}
  {{ return(tuskml.named_held(gates)) }}
{% endmacro %}

{# The groups held back and why, as text: ten of them at most; '' where there are none. #}
{% macro named_held(gates) %}
  {% set found = run_query('select * from ' ~ tuskml.temporary('held') ~ ' order by group_key') %}
  {% set texts = [] %}
  {% for row in (found.rows | list)[:10] %}
    {% set why = [] %}
    {% for gate, bound in gates.items() %}
      {% set value = row[2 * loop.index] %}
      {% if row[2 * loop.index - 1] %}
      {% elif gate == 'converged' %}
        {% do why.append('not converged') %}
      {% else %}
        {% do why.append(gate ~ ' ' ~ ('%.4g' | format(value | float) if value is not none else 'without a value')
                         ~ ', expected ' ~ tuskml.gate_bound(gate, bound)) %}
      {% endif %}
    {% endfor %}
    {% do texts.append((row[0] or 'the model') ~ ' (' ~ why | join('; ') ~ ')') %}
  {% endfor %}
  {% if found.rows | length > 10 %}{% do texts.append('and ' ~ (found.rows | length - 10) ~ ' more') %}{% endif %}
  {{ return(texts | join(', ')) }}
{% endmacro %}
