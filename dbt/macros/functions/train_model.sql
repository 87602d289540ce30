{# The aggregate that trains: an expression for a query with GROUP BY, or without. #}
{% macro train_model(task, label, features, options={}, weight=none, offset=none) %}
  {{ return(adapter.dispatch('train_model', 'tuskml')(task, label, features, options, weight, offset)) }}
{% endmacro %}

{% macro default__train_model(task, label, features, options={}, weight=none, offset=none) %}
  {{ return(tuskml.ours('train_model') ~ '(' ~ tuskml.training_arguments(task, label, features, options, weight, offset) ~ ')') }}
{% endmacro %}

{# The plans for such a training, as text; nothing is trained. #}
{% macro explain_training(task, label, features, options={}, weight=none, offset=none) %}
  {{ return(adapter.dispatch('explain_training', 'tuskml')(task, label, features, options, weight, offset)) }}
{% endmacro %}

{% macro default__explain_training(task, label, features, options={}, weight=none, offset=none) %}
  {{ return(tuskml.ours('explain_training') ~ '(' ~ tuskml.training_arguments(task, label, features, options, weight, offset) ~ ')') }}
{% endmacro %}

{% macro training_arguments(task, label, features, options, weight=none, offset=none) %}
  {% set arguments = [tuskml.literal(task), label, tuskml.features_of(features)] %}
  {% set extras = weight is not none or offset is not none %}
  {% if options or extras %}
    {% do arguments.append(tuskml.literal(tojson(options or {}, sort_keys=true))) %}
  {% endif %}
  {% if extras %}
    {% do arguments.append(weight if weight is not none else '1') %}
  {% endif %}
  {% if offset is not none %}
    {% do arguments.append(offset) %}
  {% endif %}
  {{ return(arguments | join(', ')) }}
{% endmacro %}

{# Features as SQL: a list of numbers becomes an array, names with expressions become a row, text is an array, a row or
   sparse(...) already. #}
{% macro features_of(features) %}
  {% if features is mapping %}{{ return(tuskml.row_of(features)) }}{% endif %}
  {{ return(features if features is string else tuskml.array_of(features)) }}
{% endmacro %}

{# A column's name: of "native-country" in quotes, as SQL has it, what they enclose; of any other expression its text. #}
{% macro name_of(expression) %}
  {% set quoted = modules.re.match('^"([^"]|"")+"$', expression) %}
  {{ return(expression[1:-1] | replace('""', '"') if quoted else expression) }}
{% endmacro %}

{# Columns as features by name: what a config with a list of columns trains on where one of them is text or a date. A column
   is given as in SQL; a name that SQL reads in quotes only, such as native-country, may come without them. #}
{% macro named(columns, table=none) %}
  {% set row = {} %}
  {% for column in columns %}
    {% set name = tuskml.name_of(column) %}
    {% set bare = name != column or modules.re.match('^[A-Za-z_][A-Za-z0-9_$]*$', column) %}
    {% do row.update({name: (table ~ '.' if table else '') ~ (column if bare else adapter.quote(column))}) %}
  {% endfor %}
  {{ return(row) }}
{% endmacro %}
