{# What a model's config says of its training, checked; keys may stand in `meta` too, for parsers that know no others. #}
{% macro model_settings() %}
  {% set meta = config.get('meta', {}) or {} %}
  {% set given = {} %}
  {% for key in ['task', 'label', 'features', 'group_by', 'options', 'held_out'] %}
    {% do given.update({key: config.get(key, meta.get(key))}) %}
  {% endfor %}
  {% for key in ['task', 'label', 'features'] if not given[key] %}
    {% do exceptions.raise_compiler_error(
        "materialization 'model' has no " ~ key ~ ", expected config(" ~ key ~ "=...): task is 'linear', 'logistic' or "
        ~ "'svm', label an SQL expression, features a list of them") %}
  {% endfor %}
  {% set keys = given['group_by'] or [] %}
  {{ return({
      'task': given['task'],
      'label': given['label'] | string,
      'features': given['features'],
      'group_by': [keys] if keys is string else keys | list,
      'options': given['options'] or {},
      'held_out': given['held_out'] or 'false',
  }) }}
{% endmacro %}

{# The name in the registry: that of the relation with its schema, unless config has model_name. #}
{% macro registry_name(node) %}
  {% set meta = node.config.get('meta') or {} %}
  {{ return(node.config.get('model_name') or meta.get('model_name') or (node.schema ~ '.' ~ node.alias)) }}
{% endmacro %}

{# What a version is made by: a version of the same recipe and data needs no training. #}
{% macro recipe_of(settings) %}{{ return(tojson(settings, sort_keys=true)) }}{% endmacro %}

{# A group as the registry has it, text: its keys joined by '/'. #}
{% macro group_key_of(keys) %}
  {% if keys | length == 0 %}{{ return("''") }}{% endif %}
  {% if keys | length == 1 %}{{ return('cast(src.' ~ keys[0] ~ ' as text)') }}{% endif %}
  {% set parts = [] %}
  {% for key in keys %}
    {% do parts.append("replace(replace(cast(src." ~ key ~ " as text), '\\', '\\\\'), '/', '\\/')") %}
  {% endfor %}
  {{ return(parts | join(" || '/' || ")) }}
{% endmacro %}
