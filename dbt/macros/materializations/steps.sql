{# The steps of a training per group, each a statement. Temporary tables are named after the relation. #}

{% macro temporary(part) %}
  {{ return('tusk_' ~ part ~ '_' ~ local_md5(this | string)[:12]) }}
{% endmacro %}

{% macro create_temporary(part, query) %}
  {% do run_query('drop table if exists ' ~ tuskml.temporary(part)) %}
  {% do run_query('create temporary table ' ~ tuskml.temporary(part) ~ ' as ' ~ query) %}
{% endmacro %}

{# The rows as they are now: fingerprint, training and metrics are all of these. Rows whose key is NULL belong to no
   group. #}
{% macro take_rows(settings, sql) %}
  {% set features = settings['features'] %}
  {% set listed = features is not string %}
  {% set named = features is mapping or listed and tuskml.asks_for_names(settings['options']) %}
  {% set given = features.values() | list if features is mapping else features | list if listed else [features] %}
  {% do tuskml.refuse_unknown_columns(settings, given, sql) %}
  {% set types = tuskml.types_of([settings['label']] + given, sql) %}
  {% do tuskml.check_types(settings, types) %}
  {% set named = named or listed and tuskml.has_categories(types[1:]) %}
  {% set items = [] %}
  {% if listed and not named %}
    {% for feature in given %}{% do items.append(tuskml.as_double(feature, types[loop.index])) %}{% endfor %}
  {% endif %}
  {% set row = {} %}
  {% if named %}
    {% for name in features %}
      {% do row.update({name if features is mapping else tuskml.name_of(name): 'tuskml_feature_' ~ loop.index}) %}
    {% endfor %}
    {% for option in ['cluster', 'fold_by', 'time_by'] %}
      {% set column = settings['options'].get(option) %}
      {% if column is string and column not in row %}
        {% do row.update({column: 'tuskml_' ~ option}) %}
        {% do given.append('src."' ~ (column | replace('"', '""')) ~ '"') %}
      {% endif %}
    {% endfor %}
  {% endif %}
  {% set text = tuskml.is_text(types[0]) %}
  {% set number = tuskml.as_double(settings['label'], types[0]) %}
  {% set label = number if tuskml.has_no_label(settings['task']) else '(' ~ settings['label'] ~ ')' %}
  {% do settings.update({'row': row, 'text_label': text}) %}
  {% set query %}
    select
      {%- for key in settings['group_by'] %}
      src.{{ key }},
      {%- endfor %}
      {{ tuskml.group_key_of_rows(settings['group_by'], sql) }} as tuskml_group,
      {{ label }} as tuskml_label,
      {{ 'cast((' ~ settings['label'] ~ ') as text)' if text else number }} as tuskml_number,
      {%- for name, column in row.items() %}
      ({{ given[loop.index0] }}) as {{ column }},
      {%- else %}
      {{ tuskml.array_of(items) if listed else features }} as tuskml_features,
      {%- endfor %}
      {%- for name in tuskml.extras_of(settings) %}
      cast(({{ settings[name] }}) as double precision) as tuskml_{{ name }},
      {%- endfor %}
      coalesce(({{ settings['held_out'] }}), false) as tuskml_held_out
    from (
{{ sql }}
    ) as src
    {%- for key in settings['group_by'] %}
    {{ 'where' if loop.first else 'and' }} src.{{ key }} is not null
    {%- endfor %}
  {% endset %}
  {% do tuskml.create_temporary('rows', query) %}
{% endmacro %}

{# Which of weight and offset a config has. #}
{% macro extras_of(settings) %}
  {{ return(['weight', 'offset'] | select('in', settings) | list) }}
{% endmacro %}

{# The column of a row's weight or offset, or none. #}
{% macro extra_of(settings, name, table) %}
  {{ return(table ~ '.tuskml_' ~ name if name in settings else none) }}
{% endmacro %}

{# The features of a row of the table of rows, as training and predictions take them. table: its alias, or none. #}
{% macro taken_features(settings, table=none) %}
  {% set from = table ~ '.' if table else '' %}
  {% if not settings['row'] %}{{ return(from ~ 'tuskml_features') }}{% endif %}
  {% set columns = {} %}
  {% for name, column in settings['row'].items() %}{% do columns.update({name: from ~ column}) %}{% endfor %}
  {{ return(tuskml.row_of(columns)) }}
{% endmacro %}

{# The groups, and which of them are due: new ones, and those whose newest version had other rows or another recipe. #}
{% macro find_due(settings, name, recipe) %}
  {% set extras = [] %}
  {% for name in tuskml.extras_of(settings) %}{% do extras.append('tuskml_' ~ name) %}{% endfor %}
  {% set hash = tuskml.row_hash('tuskml_label', tuskml.taken_features(settings), 'tuskml_held_out', extras) %}
  {% set query %}
    with groups as (
      select
        {%- for key in settings['group_by'] %}
        {{ key }},
        {%- endfor %}
        tuskml_group as group_key,
        md5(cast(count(*) as text) || ':' || cast(sum({{ hash }}) as text)) as data_fingerprint
      from {{ tuskml.temporary('rows') }}
      group by {% for key in settings['group_by'] %}{{ key }}, {% endfor %}tuskml_group
    ),
    newest as (
      select m.group_key, m.data_fingerprint, m.recipe,
             row_number() over (partition by m.group_key order by m.version desc) as place
      from tuskml.models as m where m.name = {{ tuskml.literal(name) }}
    )
    select groups.*,
           {% if flags.FULL_REFRESH -%} true {%- else -%}
           not coalesce(newest.data_fingerprint = groups.data_fingerprint
                        and newest.recipe = {{ tuskml.literal(recipe) }}, false)
           {%- endif %} as due
    from groups left join newest on newest.group_key = groups.group_key and newest.place = 1
  {% endset %}
  {% do tuskml.create_temporary('groups', query) %}
  {% set counts = run_query("select count(*), coalesce(sum(case when due then 1 else 0 end), 0), count(case when group_key = ''
                            then 1 end) from " ~ tuskml.temporary('groups')) %}
  {% set row = counts.rows[0] %}
  {% if settings['group_by'] and row[2] | int %}
    {% do exceptions.raise_compiler_error(
        "the key of a group is '', which the registry has for models without groups: leave the group out, or name it, "
        ~ "coalesce(nullif(" ~ settings['group_by'][0] ~ ", ''), 'none') as " ~ settings['group_by'][0]) %}
  {% endif %}
  {{ return({'groups': row[0] | int, 'due': row[1] | int}) }}
{% endmacro %}

{# Trains the groups that are due, on the rows that are not held out. #}
{% macro train_due(settings) %}
  {% set label = 'null' if tuskml.has_no_label(settings['task']) else 'r.tuskml_label' %}
  {% set query %}
    select r.tuskml_group as group_key,
           {{ tuskml.train_model(settings['task'], label, tuskml.taken_features(settings, 'r'), settings['options'],
                                 tuskml.extra_of(settings, 'weight', 'r'), tuskml.extra_of(settings, 'offset', 'r')) }} as model
    {{ tuskml.due_rows() }}
    group by r.tuskml_group
  {% endset %}
  {% do tuskml.create_temporary('trained', query) %}
{% endmacro %}

{% macro due_rows() %}
    from {{ tuskml.temporary('rows') }} as r
    join {{ tuskml.temporary('groups') }} as g on g.group_key = r.tuskml_group
    where g.due and not r.tuskml_held_out
{% endmacro %}

{# The same on a cluster, as Python that dbt-duckdb runs in its own transaction (front/dbt.py).
   place: what `tuskml.model_place` returns. #}
{% macro python_on_workers(settings, place) %}
  {% set source %}
    select r.tuskml_group as group_key, {{ tuskml.taken_features(settings, 'r') }} as features
      {%- if not tuskml.has_no_label(settings['task']) %}, r.tuskml_label as label{% endif %}
      {%- for name in tuskml.extras_of(settings) %}, {{ tuskml.extra_of(settings, name, 'r') }} as {{ name }}{% endfor %}
    {{ tuskml.due_rows() }}
  {% endset %}
  {% set given = dict(settings['options']) %}
  {% do given.update(place) %}
  {% if settings['group_by'] %}{% do given.update({'group_by': 'group_key'}) %}{% endif %}
  {% do given.update({'task': settings['task'], 'source': source, 'features': ['features'],
                      'into': 'temp.' ~ tuskml.temporary('trained'), 'replace': true}) %}
  {% if not tuskml.has_no_label(settings['task']) %}{% do given.update({'label': 'label'}) %}{% endif %}
  {% for name in tuskml.extras_of(settings) %}{% do given.update({name: name}) %}{% endfor %}
import json
from tuskml.dbt import train_on_workers

def dbtObj(load):
    return None

def model(dbt, session):
    return train_on_workers(session, json.loads({{ tojson(tojson(given)) }}), "{{ tuskml.temporary('said') }}")

def materialize(found, session):
    pass
{% endmacro %}

{# What a training on a cluster had to say: its warnings, or why there are no models. #}
{% macro hear_workers() %}
  {% set said = run_query('select error, sentence from ' ~ tuskml.temporary('said') ~ ' order by error') %}
  {% for row in said.rows %}
    {% if row[0] %}{% do exceptions.raise_compiler_error(row[1]) %}{% endif %}
    {% do exceptions.warn('tuskml: ' ~ this ~ ': ' ~ row[1]) %}
  {% endfor %}
{% endmacro %}

{# How many groups have a model now. #}
{% macro usable_models() %}
  {% set usable = run_query('select count(*) from ' ~ tuskml.temporary('trained') ~ ' as t where (t.model).task is not null') %}
  {{ return(usable.rows[0][0] | int) }}
{% endmacro %}

{# The metrics of the models, on the rows that were held out, or on the training rows if none were. If any group has more
   than two classes, all groups have the metrics of several classes, which two classes have too. #}
{% macro evaluate_trained(settings) %}
  {% set text = settings['text_label'] %}
  {% set positive = '(r.tuskml_number = (t.model).' ~ ('class_names' if text else 'classes') ~ '[2])' %}
  {% set most = run_query('select max(array_length((t.model).class_names, 1)) from ' ~ tuskml.temporary('trained') ~ ' as t') %}
  {% set metrics = tuskml.metrics_of(
      settings['task'], 'r.tuskml_number', positive, 't.model', tuskml.taken_features(settings, 'r'), text,
      settings['options'], most.rows[0][0] or 0, tuskml.extra_of(settings, 'weight', 'r'),
      tuskml.extra_of(settings, 'offset', 'r')) %}
  {% set pairs = ["'rows'", 'count(*)', "'on'", "case when o.held_out then 'held out' else 'training' end"] %}
  {% for metric, expression in metrics.items() %}
    {% do pairs.append("'" ~ metric ~ "'") %}
    {% do pairs.append(expression) %}
  {% endfor %}
  {% set query %}
    with o as (
      select tuskml_group as group_key, count(case when tuskml_held_out then 1 end) > 0 as held_out
      from {{ tuskml.temporary('rows') }} group by tuskml_group
    )
    select t.group_key, {{ tuskml.json_object(pairs) }} as metrics
    from {{ tuskml.temporary('rows') }} as r
    join o on o.group_key = r.tuskml_group and o.held_out = r.tuskml_held_out
    join {{ tuskml.temporary('trained') }} as t on t.group_key = r.tuskml_group
    where (t.model).task is not null
      {%- if not tuskml.has_no_label(settings['task']) %} and r.tuskml_number is not null{% endif %}
    group by t.group_key, o.held_out
  {% endset %}
  {% do tuskml.create_temporary('metrics', query) %}
{% endmacro %}

{# One version number a run, one more than the model's last. A group without usable rows has no model. #}
{% macro register_trained(name, recipe) %}
  {% set text = tuskml.literal(name) %}
  {% do run_query('
    insert into tuskml.models
      (name, group_key, version, task, status, plan, metrics, options, recipe, data_fingerprint, model)
    select ' ~ text ~ ', t.group_key,
           (select coalesce(max(version), 0) + 1 from tuskml.models where name = ' ~ text ~ '),
           (t.model).task, (t.model).status, (t.model).plan,
           coalesce(e.metrics, cast(\'{}\' as ' ~ tuskml.json_type() ~ ')),
           cast((t.model).options as ' ~ tuskml.json_type() ~ '), ' ~ tuskml.literal(recipe) ~ ',
           g.data_fingerprint, t.model
    from ' ~ tuskml.temporary('trained') ~ ' as t
    join ' ~ tuskml.temporary('groups') ~ ' as g on g.group_key = t.group_key
    left join ' ~ tuskml.temporary('metrics') ~ ' as e on e.group_key = t.group_key
    where (t.model).task is not null') %}
{% endmacro %}

{# What the relation holds: of each group the newest version of these stages. groups: a relation with the keys and
   group_key. #}
{# The query of the relation: each group's newest version, of a group that is held back the deployed one.

   groups: a relation with the groups' keys; held: one with the keys of those that are held back. #}
{% macro newest_models(name, keys, groups, stages=['candidate', 'deployed', 'retired'], held=none) %}
    with newest as (
      select m.*, row_number() over (partition by m.group_key order by m.version desc) as place
      from tuskml.models as m
      where m.name = {{ tuskml.literal(name) }}
        and m.stage in ({% for stage in stages %}{{ tuskml.literal(stage) }}{{ ', ' if not loop.last }}{% endfor %})
        {%- if held %}
        and (m.stage = 'deployed' or m.group_key not in (select h.group_key from {{ held }} as h))
        {%- endif %}
    )
    select
      {%- for key in keys %}
      g.{{ key }},
      {%- endfor %}
      g.group_key, n.version, n.created as trained_at, n.task, n.status, n.metrics, n.data_fingerprint, n.model
    from {{ groups }} as g join newest as n on n.group_key = g.group_key and n.place = 1
{% endmacro %}
