{# What a model says of a row: an expression.

   model: a column with a model, or the name of a deployed one as an SQL text, "'late'"; group: of a model by name and
   group, the group's column or a list of its columns; answer: 'class' (the class as a number, or the number),
   'class_name', 'probability' (of the higher of two classes), 'probabilities' (of all, by name), 'margin', 'topics'
   (the proportions of topics in a document), or 'interval' (the number, its standard error and intervals, of a model
   in a column); offset: what is added to the margin of a row, as in the training, SQL or none, of a column with a
   model; level: that of intervals. #}
{% macro predict(model, features, group=none, answer='class', offset=none, level=0.95) %}
  {{ return(adapter.dispatch('predict', 'tuskml')(model, features, group, answer, offset, level)) }}
{% endmacro %}

{% macro default__predict(model, features, group=none, answer='class', offset=none, level=0.95) %}
  {% set functions = {'class': 'predict', 'class_name': 'predict_class', 'probability': 'predict_proba',
                      'probabilities': 'predict_probas', 'margin': 'decision',
                      'topics': 'predict_topics', 'interval': 'predict_interval'} %}
  {% if answer not in functions %}
    {% do exceptions.raise_compiler_error(
        "predict: answer is '" ~ answer ~ "', expected 'class', 'class_name', 'probability', 'probabilities', 'margin', 'topics' or 'interval'") %}
  {% endif %}
  {% if offset is not none and (group is not none or answer in ['probabilities', 'topics', 'interval']) %}
    {% do exceptions.raise_compiler_error(
        "predict: offset is given with a group or the answer '" ~ answer ~ "', expected a model in a column and 'class', 'class_name', 'probability' or 'margin'") %}
  {% endif %}
  {% if offset is not none and answer == 'margin' %}
    {{ return('(' ~ tuskml.ours('decision') ~ '(' ~ model ~ ', ' ~ tuskml.features_of(features) ~ ') + (' ~ offset ~ '))') }}
  {% endif %}
  {% set arguments = [model] %}
  {% if group is not none %}{% do arguments.append(tuskml.group_key_of([group] if group is string else group)) %}{% endif %}
  {% do arguments.append(tuskml.features_of(features)) %}
  {% if offset is not none %}{% do arguments.append('(' ~ offset ~ ')') %}{% endif %}
  {% if answer == 'interval' %}{% do arguments.append(level | string) %}{% endif %}
  {% set function = functions[answer] ~ ('_with_offset' if offset is not none else '') %}
  {{ return(tuskml.ours(function) ~ '(' ~ arguments | join(', ') ~ ')') }}
{% endmacro %}
