{# How good a model is on rows: the metrics of its task as columns of a query, `auc(...) as auc, ...`.

   label: for logistic and svm a boolean, 0 and 1, or -1 and +1. #}
{% macro evaluate(task, label, model, features) %}
  {{ return(adapter.dispatch('evaluate', 'tuskml')(task, label, model, features)) }}
{% endmacro %}

{% macro default__evaluate(task, label, model, features) %}
  {% set columns = [] %}
  {% for name, expression in tuskml.metrics_of(task, label, label, model, features).items() %}
    {% do columns.append(expression ~ ' as ' ~ name) %}
  {% endfor %}
  {{ return(columns | join(',\n    ')) }}
{% endmacro %}

{# The tasks that tuskml has, all but those of the user's own. #}
{% macro known_tasks() %}
  {{ return(['linear', 'logistic', 'svm', 'squared_hinge', 'poisson', 'negative_binomial', 'gamma', 'huber', 'quantile',
             'matrix_factorization', 'gbdt', 'random_forest', 'mlp']) }}
{% endmacro %}

{# Metrics by name. positive: whether the label is the higher class; label: as what predict returns; text: whether it is
   text. #}
{% macro metrics_of(task, label, positive, model, features, text=false) %}
  {% set tasks = tuskml.known_tasks() %}
  {% if task not in tasks %}
    {% do exceptions.raise_compiler_error("evaluate: task is '" ~ task ~ "', expected one of " ~ tasks | join(', ')) %}
  {% endif %}
  {% set features = tuskml.features_of(features) %}
  {% set predicted = ('predict_class(' if text else 'predict(') ~ model ~ ', ' ~ features ~ ')' %}
  {% set probability = 'predict_proba(' ~ model ~ ', ' ~ features ~ ')' %}
  {% set margin = 'decision(' ~ model ~ ', ' ~ features ~ ')' %}
  {% if task == 'logistic' %}
    {{ return({
        'auc': 'auc(' ~ positive ~ ', ' ~ margin ~ ')',
        'log_loss': 'log_loss(' ~ positive ~ ', ' ~ probability ~ ')',
        'accuracy': 'accuracy(' ~ label ~ ', ' ~ predicted ~ ')',
    }) }}
  {% elif task in ['svm', 'squared_hinge'] %}
    {{ return({
        'auc': 'auc(' ~ positive ~ ', ' ~ margin ~ ')',
        'accuracy': 'accuracy(' ~ label ~ ', ' ~ predicted ~ ')',
    }) }}
  {% endif %}
  {{ return({
      'rmse': 'rmse(' ~ label ~ ', ' ~ predicted ~ ')',
      'mae': 'mae(' ~ label ~ ', ' ~ predicted ~ ')',
      'r2': 'r2(' ~ label ~ ', ' ~ predicted ~ ')',
  }) }}
{% endmacro %}
