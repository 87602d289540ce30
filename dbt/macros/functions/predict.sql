{# What a model says of a row: an expression.

   model: a column with a model, or the name of a deployed one as an SQL text, "'late'"; group: of a model by name and
   group, the group's column; answer: 'class' (the class as a number, or the number), 'class_name', 'probability' (of the higher of
   two classes), 'probabilities' (of all, by name), 'margin', 'topics' (the proportions of topics in a document), or 'interval' (the
   number, its standard error and intervals, of a model in a column); level: that of intervals. #}
{% macro predict(model, features, group=none, answer='class', level=0.95) %}
  {{ return(adapter.dispatch('predict', 'tuskml')(model, features, group, answer, level)) }}
{% endmacro %}

{% macro default__predict(model, features, group=none, answer='class', level=0.95) %}
  {% set functions = {'class': 'predict', 'class_name': 'predict_class', 'probability': 'predict_proba',
                      'probabilities': 'predict_probas', 'margin': 'decision',
                      'topics': 'predict_topics', 'interval': 'predict_interval'} %}
  {% if answer not in functions %}
    {% do exceptions.raise_compiler_error(
        "predict: answer is '" ~ answer ~ "', expected 'class', 'class_name', 'probability', 'probabilities', 'margin', 'topics' or 'interval'") %}
  {% endif %}
  {% set arguments = [model] %}
  {% if group is not none %}{% do arguments.append('(' ~ group ~ ')::text') %}{% endif %}
  {% do arguments.append(tuskml.features_of(features)) %}
  {% if answer == 'interval' %}{% do arguments.append(level | string) %}{% endif %}
  {{ return(tuskml.ours(functions[answer]) ~ '(' ~ arguments | join(', ') ~ ')') }}
{% endmacro %}
