{# What a model's config says of its training, checked; keys may stand in `meta` too, for parsers that know no others. #}
{% macro model_settings() %}
  {% set meta = config.get('meta', {}) or {} %}
  {% set keys = ['task', 'label', 'features', 'group_by', 'options', 'held_out', 'weight', 'offset', 'model_name'] %}
  {% do tuskml.refuse_misspelt(keys + ['gates'] + tuskml.place_keys(), model.config.keys() | list + meta.keys() | list) %}
  {% set given = {} %}
  {% for key in keys %}
    {% do given.update({key: config.get(key, meta.get(key))}) %}
  {% endfor %}
  {% if tuskml.has_no_label(given['task']) %}
    {% if given['label'] is not none %}
      {% do exceptions.raise_compiler_error("task '" ~ given['task'] ~ "' has no label: leave label out of the config") %}
    {% endif %}
    {% if tuskml.has_documents(given['task']) and given['features'] is not string %}
      {% do exceptions.raise_compiler_error(
          "task '" ~ given['task'] ~ "' takes documents: features is one text, a column of lists of words or sparse(ids, counts)") %}
    {% endif %}
    {% do given.update({'label': 'null'}) %}
  {% endif %}
  {% for key in ['task', 'label', 'features'] if not given[key] %}
    {% do exceptions.raise_compiler_error(
        "materialization 'model' has no " ~ key ~ ", expected config(" ~ key ~ "=...): task is a name such as 'linear' or "
        ~ "'logistic', label an SQL expression, features a list of them") %}
  {% endfor %}
  {% set written = [] %}
  {% for term in ([given['features']] if given['features'] is string else given['features']) %}
    {% do written.append(term | string | lower | replace(' ', '') | replace('"', '')) %}
  {% endfor %}
  {% if given['label'] | string | lower | replace(' ', '') | replace('"', '') in written %}
    {% do exceptions.raise_compiler_error(
        "features has the label '" ~ given['label'] ~ "' itself, expected columns to predict it from") %}
  {% endif %}
  {% set keys = given['group_by'] or [] %}
  {# Only where they are given: settings are the recipe, and a new key would train every model again. #}
  {% set extras = {} %}
  {% for key in ['weight', 'offset'] if given[key] is not none %}{% do extras.update({key: given[key] | string}) %}{% endfor %}
  {% set settings = {
      'task': given['task'],
      'label': given['label'] | string,
      'features': given['features'],
      'group_by': [keys] if keys is string else keys | list,
      'options': given['options'] or {},
      'held_out': given['held_out'] or 'false',
  } %}
  {% do settings.update(extras) %}
  {{ return(settings) }}
{% endmacro %}

{% macro place_keys() %}{{ return(['cluster', 'executor', 'placement', 'worker_timeout']) }}{% endmacro %}

{# Where a model's config says that it is trained: arguments of `tuskml.train`, none of them where its database trains.
   They are no part of the recipe: groups have the same models wherever they are trained. #}
{% macro model_place() %}
  {% set meta = config.get('meta', {}) or {} %}
  {% set place = {} %}
  {% for key in tuskml.place_keys() if config.get(key, meta.get(key)) is not none %}
    {% do place.update({key: config.get(key, meta.get(key))}) %}
  {% endfor %}
  {% if config.get('finished', meta.get('finished')) is not none %}
    {% do exceptions.raise_compiler_error(
        "materialization 'model' has a config finished, but the rows of a query are written anew for each training: a "
        ~ "Python model of dbt can call tuskml.train(..., finished=...) on Parquet files") %}
  {% endif %}
  {% if place and adapter.type() != 'duckdb' %}
    {% do exceptions.raise_compiler_error(
        "materialization 'model' has a config " ~ (place.keys() | first) ~ ", which is for DuckDB: PostgreSQL trains the "
        ~ "rows of a query in its server, and tuskml train --cluster ray trains them on a cluster") %}
  {% endif %}
  {% if place.get('cluster') is not none and place.get('executor') is none %}
    {% do place.update({'executor': place.pop('cluster')}) %}
  {% endif %}
  {{ return(place) }}
{% endmacro %}

{# How alike two names are, from 0 to 1: the share of common pairs of letters (Dice, Measures of the Amount of Ecologic
   Association Between Species, 1945), and 1 where one has the other's letters in another order. #}
{% macro likeness(one, other) %}
  {% set a = one | replace('_', '') | lower %}
  {% set b = other | replace('_', '') %}
  {% if (a | list | sort) == (b | list | sort) %}{{ return(1) }}{% endif %}
  {% set pairs = [] %}
  {% for place in range(1, a | length) if a[place - 1:place + 1] in b %}{% do pairs.append(place) %}{% endfor %}
  {% set most = (a | length) + (b | length) - 2 %}
  {{ return(2 * (pairs | length) / most if most > 0 else 0) }}
{% endmacro %}

{# dbt keeps what it does not know of a config, so a slip such as heldout= would go unseen, and change what is trained;
   `group` is a key of dbt's own. #}
{% macro refuse_misspelt(keys, given) %}
  {% for key in given if key not in keys and key != 'group' %}
    {% for ours in keys %}
      {% if tuskml.likeness(key, ours) > 0.6 %}
        {% do exceptions.raise_compiler_error("materialization 'model' has no config " ~ key ~ "; did you mean " ~ ours ~ "?") %}
      {% endif %}
    {% endfor %}
  {% endfor %}
{% endmacro %}

{# Raises an error for a name in the config that the query's rows do not have. Expressions are left to the database,
   whose error names the column; SQL's own names, such as current_date, are not columns. features: the SQL expressions
   of the features. #}
{% macro refuse_unknown_columns(settings, features, sql) %}
  {% set columns = [] %}
  {% for column in get_columns_in_query(sql) %}{% do columns.append(column | lower) %}{% endfor %}
  {% set named = {'label': [settings['label']], 'features': features, 'group_by': settings['group_by'],
                  'held_out': [settings['held_out']]} %}
  {% for key in tuskml.extras_of(settings) %}{% do named.update({key: [settings[key]]}) %}{% endfor %}
  {% set known = columns + ['null', 'true', 'false', 'current_date', 'current_timestamp', 'localtime', 'localtimestamp'] %}
  {% for key, terms in named.items() %}
    {% for term in terms if term | string | lower not in known and modules.re.fullmatch('[A-Za-z_][A-Za-z_0-9]*', term | string) %}
      {% set near = [] %}
      {% for column in columns if tuskml.likeness(term | string, column) > 0.6 %}{% do near.append(column) %}{% endfor %}
      {% do exceptions.raise_compiler_error(
          key ~ " names column '" ~ term ~ "', which the model's query does not have: its columns are "
          ~ columns[:12] | join(', ') ~ (', ...' if columns | length > 12 else '')
          ~ ("; did you mean '" ~ near[0] ~ "'?" if near else '')) %}
    {% endfor %}
  {% endfor %}
{% endmacro %}

{# The name in the registry: that of the relation with its schema, unless config has model_name. #}
{% macro registry_name(node) %}
  {% set meta = node.config.get('meta') or {} %}
  {{ return(node.config.get('model_name') or meta.get('model_name') or (node.schema ~ '.' ~ node.alias)) }}
{% endmacro %}

{# What a version is made by: a version of the same recipe and data needs no training. #}
{% macro recipe_of(settings) %}{{ return(tojson(settings, sort_keys=true)) }}{% endmacro %}

{# A group as the registry has it, text: the texts of its keys joined by '/'. keys: SQL expressions. #}
{% macro group_key_of(keys) %}
  {% if keys | length == 0 %}{{ return("''") }}{% endif %}
  {% if keys | length == 1 %}{{ return('cast(' ~ keys[0] ~ ' as text)') }}{% endif %}
  {% set parts = [] %}
  {% for key in keys %}
    {% do parts.append("replace(replace(cast(" ~ key ~ " as text), '\\', '\\\\'), '/', '\\/')") %}
  {% endfor %}
  {{ return(parts | join(" || '/' || ")) }}
{% endmacro %}

{# The same of the rows src of a query, one text for each group: equal keys may differ as text, as 1.0 and 1.00 do. #}
{% macro group_key_of_rows(keys, sql) %}
  {% set columns = [] %}
  {% for key in keys %}{% do columns.append('src.' ~ key) %}{% endfor %}
  {% set text = tuskml.group_key_of(columns) %}
  {% set plain = ['smallint', 'integer', 'bigint', 'text', 'character varying', 'varchar', 'date', 'boolean', 'uuid'] %}
  {% if not keys or tuskml.types_of(columns, sql) | map('lower') | reject('in', plain) | list | length == 0 %}
    {{ return(text) }}
  {% endif %}
  {{ return('min(' ~ text ~ ') over (partition by ' ~ columns | join(', ') ~ ')') }}
{% endmacro %}
