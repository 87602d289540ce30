{# What a model says of a row: an expression.

   model: a column with a model, or the name of a deployed one as an SQL text, "'late'"; group: of a model by name and
   group, the group's column; answer: 'class' (the class or the number), 'probability' or 'margin'. #}
{% macro predict(model, features, group=none, answer='class') %}
  {{ return(adapter.dispatch('predict', 'tuskml')(model, features, group, answer)) }}
{% endmacro %}

{% macro default__predict(model, features, group=none, answer='class') %}
  {% set functions = {'class': 'predict', 'probability': 'predict_proba', 'margin': 'decision'} %}
  {% if answer not in functions %}
    {% do exceptions.raise_compiler_error(
        "predict: answer is '" ~ answer ~ "', expected 'class', 'probability' or 'margin'") %}
  {% endif %}
  {% set arguments = [model] %}
  {% if group is not none %}{% do arguments.append('(' ~ group ~ ')::text') %}{% endif %}
  {% do arguments.append(tuskml.features_of(features)) %}
  {{ return(functions[answer] ~ '(' ~ arguments | join(', ') ~ ')') }}
{% endmacro %}
