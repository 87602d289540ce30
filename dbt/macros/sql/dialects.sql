{# What the two databases spell differently. #}

{# A function of tuskml by the name that no function of others has. #}
{% macro ours(name) %}{{ return(adapter.dispatch('ours', 'tuskml')(name)) }}{% endmacro %}
{% macro default__ours(name) %}{{ return('tuskml.' ~ name) }}{% endmacro %}
{% macro duckdb__ours(name) %}{{ return('tuskml_' ~ name) }}{% endmacro %}

{% macro array_of(items) %}{{ return(adapter.dispatch('array_of', 'tuskml')(items)) }}{% endmacro %}
{% macro default__array_of(items) %}{{ return('ARRAY[' ~ items | join(', ') ~ ']') }}{% endmacro %}
{% macro duckdb__array_of(items) %}{{ return('[' ~ items | join(', ') ~ ']') }}{% endmacro %}

{# Expressions by name as one row with these names. #}
{% macro row_of(columns) %}{{ return(adapter.dispatch('row_of', 'tuskml')(columns)) }}{% endmacro %}
{% macro default__row_of(columns) %}
  {% set items = [] %}
  {% for name, expression in columns.items() %}
    {% do items.append(expression ~ ' as "' ~ (name | replace('"', '""')) ~ '"') %}
  {% endfor %}
  {{ return('tuskml._tuskml_row((select tuskml_row from (select ' ~ items | join(', ') ~ ') as tuskml_row))') }}
{% endmacro %}
{% macro duckdb__row_of(columns) %}
  {% set items = [] %}
  {% for name, expression in columns.items() %}{% do items.append(tuskml.literal(name) ~ ': ' ~ expression) %}{% endfor %}
  {{ return('{' ~ items | join(', ') ~ '}') }}
{% endmacro %}

{# Whether a type is text, by its name; whether one of several is a category or a date, which only rows with names have. #}
{% macro is_text(type) %}
  {% set one = type | lower %}
  {% set plain = '[' not in one and not one.startswith('struct') %}
  {{ return(plain and (one.startswith('enum') or ['char', 'text', 'name'] | select('in', one) | list | length > 0)) }}
{% endmacro %}
{% macro has_categories(types) %}
  {% set found = [] %}
  {% for type in types if tuskml.is_text(type) or ['uuid', 'date', 'timestamp'] | select('in', type | lower) | list %}
    {% do found.append(type) %}
  {% endfor %}
  {{ return(found | length > 0) }}
{% endmacro %}

{# Whether options are for rows with names, so that listed columns have to be one. #}
{% macro asks_for_names(options) %}
  {% set about_columns = ['max_categories', 'min_count', 'unseen', 'levels', 'categories', 'dates', 'interactions', 'text',
    'cluster', 'absorb', 'text_bits', 'fold_by', 'time_by'] | select('in', options) | list %}
  {{ return(about_columns | length > 0 or options.get('missing') in ['impute', 'level', 'error']) }}
{% endmacro %}

{% macro json_type() %}{{ return(adapter.dispatch('json_type', 'tuskml')()) }}{% endmacro %}
{% macro default__json_type() %}{{ return('jsonb') }}{% endmacro %}
{% macro duckdb__json_type() %}{{ return('JSON') }}{% endmacro %}

{% macro json_object(pairs) %}{{ return(adapter.dispatch('json_object', 'tuskml')(pairs)) }}{% endmacro %}
{% macro default__json_object(pairs) %}{{ return('jsonb_build_object(' ~ pairs | join(', ') ~ ')') }}{% endmacro %}
{% macro duckdb__json_object(pairs) %}{{ return('json_object(' ~ pairs | join(', ') ~ ')') }}{% endmacro %}

{# The names of a JSON object, each a row. #}
{% macro json_keys(object) %}{{ return(adapter.dispatch('json_keys', 'tuskml')(object)) }}{% endmacro %}
{% macro default__json_keys(object) %}{{ return('jsonb_object_keys(' ~ object ~ ')') }}{% endmacro %}
{% macro duckdb__json_keys(object) %}{{ return('unnest(json_keys(' ~ object ~ '))') }}{% endmacro %}

{# A number or boolean as double precision; PostgreSQL casts no boolean to it. #}
{% macro as_double(expression, type) %}
  {{ return(adapter.dispatch('as_double', 'tuskml')(expression, type)) }}
{% endmacro %}
{% macro default__as_double(expression, type) %}
  {% set by_way_of = '::integer' if type == 'boolean' else '' %}
  {{ return('(' ~ expression ~ ')' ~ by_way_of ~ '::double precision') }}
{% endmacro %}
{% macro duckdb__as_double(expression, type) %}{{ return('(' ~ expression ~ ')::DOUBLE') }}{% endmacro %}

{# The types of expressions over a query, in their order. #}
{% macro types_of(expressions, query) %}
  {{ return(adapter.dispatch('types_of', 'tuskml')(expressions, query)) }}
{% endmacro %}
{% macro duckdb__types_of(expressions, query) %}
  {% set items = [] %}
  {% for expression in expressions %}{% do items.append('(' ~ expression ~ ') as type_' ~ loop.index) %}{% endfor %}
  {% set found = run_query('describe select ' ~ items | join(', ') ~ ' from (' ~ query ~ '\n) as src') %}
  {{ return(found.columns[1].values() | list) }}
{% endmacro %}
{% macro default__types_of(expressions, query) %}
  {% set probe %}
    select
    {% for expression in expressions %}
      (select case y.typtype when 'e' then 'enum ' else '' end
              || pg_catalog.format_type(case y.typtype when 'd' then y.typbasetype else y.oid end, null)
       from pg_catalog.pg_type as y
       where y.oid = pg_catalog.pg_typeof((select ({{ expression }}) from src limit 0))) as type_{{ loop.index }} {{ ',' if not loop.last }}
    {% endfor %}
  {% endset %}
  {% set found = run_query('with src as (' ~ query ~ '\n) ' ~ probe) %}
  {{ return(found.rows[0].values() | list) }}
{% endmacro %}

{# That a label and features are of types that a training takes, else which is not. #}
{% macro check_types(settings, types) %}
  {% set classifies = settings['task'] == 'multinomial' or tuskml.labels_by_task().get(settings['task']) in ['two', 'classes', 'levels', 'either', 'either_two'] %}
  {% set any = tuskml.has_no_label(settings['task']) or classifies and tuskml.is_text(types[0]) %}
  {% set what = {} if any else {'label': types[0]} %}
  {% if settings['features'] is string %}
    {% set kind = types[1] | lower %}
    {% if not (kind.endswith(']') or kind.startswith('struct(indices') or 'tuskml_sparse' in kind) %}
      {% do exceptions.raise_compiler_error(
          "features is '" ~ settings['features'] ~ "', of type " ~ types[1] ~ ", expected a list, features=['a', 'b'], or "
          ~ 'text that is an array or sparse(indices, values) in SQL') %}
    {% endif %}
  {% else %}
    {% for feature in settings['features'] %}
      {% set type = types[loop.index] %}
      {% if not tuskml.has_categories([type]) %}{% do what.update({"feature '" ~ feature ~ "'": type}) %}{% endif %}
    {% endfor %}
  {% endif %}
  {% set numbers = ['int', 'float', 'double', 'real', 'decimal', 'numeric', 'bool', 'null'] %}
  {% for name, type in what.items() if not numbers | select('in', type | lower) | list or '[' in type or '(' in type and 'decimal' not in type | lower %}
    {% do exceptions.raise_compiler_error(
        name ~ ' is of type ' ~ type ~ ', expected a number or a boolean'
        ~ (": label=\"" ~ settings['label'] ~ " = '...'\" makes one" if name == 'label' else ', text or a date')) %}
  {% endfor %}
{% endmacro %}

{# 64 bits of a row's MD5, as a number whose sum does not depend on the order of the rows. A sum, since by XOR two equal
   rows would cancel each other. #}
{% macro row_hash(label, features, held_out, extras=[]) %}
  {{ return(adapter.dispatch('row_hash', 'tuskml')(label, features, held_out, extras)) }}
{% endmacro %}
{% macro default__row_hash(label, features, held_out, extras=[]) %}
  {% set row = 'row(' ~ ([label, features, held_out] + extras) | join(', ') ~ ')' %}
  {{ return("('x' || substr(md5(" ~ row ~ "::text), 1, 16))::bit(64)::bigint::numeric") }}
{% endmacro %}
{% macro duckdb__row_hash(label, features, held_out, extras=[]) %}
  {% set more = [] %}
  {% for name in extras %}{% do more.append(", '" ~ name ~ "': " ~ name) %}{% endfor %}
  {% set row = "{'y': " ~ label ~ ", 'x': " ~ features ~ ", 'held_out': " ~ held_out ~ more | join('') ~ "}" %}
  {{ return('md5_number_lower(to_json(' ~ row ~ ')::VARCHAR)::HUGEINT') }}
{% endmacro %}

{# A statement in a transaction of its own. #}
{% macro run_and_commit(sql) %}
  {% call statement('tuskml', fetch_result=true, auto_begin=true) %}{{ sql }}{% endcall %}
  {% do adapter.commit() %}
  {{ return(load_result('tuskml').table) }}
{% endmacro %}

{% macro literal(text) %}{{ return("'" ~ (text | string | replace("'", "''")) ~ "'") }}{% endmacro %}

{# The numbers from 1 to n as rows, in a list of expressions. #}
{% macro numbers_to(n) %}{{ return(adapter.dispatch('numbers_to', 'tuskml')(n)) }}{% endmacro %}
{% macro default__numbers_to(n) %}{{ return('generate_series(1, ' ~ n ~ ')') }}{% endmacro %}
{% macro duckdb__numbers_to(n) %}{{ return('unnest(generate_series(1, ' ~ n ~ '))') }}{% endmacro %}

{# Columns of an alias, or with none bare, each with a comma behind it. #}
{% macro columns_of(alias, columns) %}
  {% set found = [] %}
  {% for column in columns %}{% do found.append((alias ~ '.' if alias else '') ~ column ~ ', ') %}{% endfor %}
  {{ return(found | join) }}
{% endmacro %}

{# That two aliases have the same columns; without columns always. #}
{% macro equal_columns(one, other, columns) %}
  {% set found = [] %}
  {% for column in columns %}{% do found.append(one ~ '.' ~ column ~ ' = ' ~ other ~ '.' ~ column) %}{% endfor %}
  {{ return(found | join(' and ') if found else 'true') }}
{% endmacro %}
