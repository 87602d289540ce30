{# How good a model is on rows: the metrics of its task as columns of a query, `auc(...) as auc, ...`.

   label: for classifiers of two classes a boolean, 0 and 1, or -1 and +1; of more, text or a number. options: of the
   training, of which `objective` says what trees and nets learn. classes: how many there are. #}
{% macro evaluate(task, label, model, features, options={}, classes=2) %}
  {{ return(adapter.dispatch('evaluate', 'tuskml')(task, label, model, features, options, classes)) }}
{% endmacro %}

{% macro default__evaluate(task, label, model, features, options={}, classes=2) %}
  {% set columns = [] %}
  {% for name, expression in tuskml.metrics_of(task, label, label, model, features, false, options, classes).items() %}
    {% do columns.append(expression ~ ' as ' ~ name) %}
  {% endfor %}
  {{ return(columns | join(',\n    ')) }}
{% endmacro %}

{# The tasks that tuskml has, all but those of the user's own. #}
{% macro known_tasks() %}
  {{ return((tuskml.labels_by_task().keys() | list) + ['multinomial']) }}
{% endmacro %}

{# Whether the rows of a task have no labels, and whether they are documents. #}
{% macro has_no_label(task) %}
  {{ return(tuskml.labels_by_task().get(task) in ['none', 'documents']) }}
{% endmacro %}
{% macro has_documents(task) %}
  {{ return(tuskml.labels_by_task().get(task) == 'documents') }}
{% endmacro %}

{# The metrics that are better the lower they are. #}
{% macro lower_is_better() %}
  {{ return(['log_loss', 'mae', 'rmse', 'perplexity', 'mean_squared_distance']) }}
{% endmacro %}

{# Whether labels are classes, and whether the model has probabilities of them. #}
{% macro classifies(task, options) %}
  {{ return(task in ['svm', 'squared_hinge'] or tuskml.has_probabilities(task, options)) }}
{% endmacro %}
{% macro has_probabilities(task, options) %}
  {% set of_classes = {'gbdt': 'logistic', 'mlp': 'logistic', 'fm': 'logistic', 'random_forest': 'gini'} %}
  {{ return(task in ['logistic', 'multinomial', 'sparse_logistic', 'ordinal'] or (options or {}).get('objective') == of_classes.get(task, '-')) }}
{% endmacro %}

{# Metrics by name; weight: of the row, offset: of its margin, SQL or none. positive: whether the label is the higher
   class; label: as what predict returns; text: whether it is text; classes: how many a model has. #}
{% macro metrics_of(
    task, label, positive, model, features, text=false, options={}, classes=2, weight=none, offset=none) %}
  {% set tasks = tuskml.known_tasks() %}
  {% if task not in tasks %}
    {% do exceptions.raise_compiler_error("evaluate: task is '" ~ task ~ "', expected one of " ~ tasks | join(', ')) %}
  {% endif %}
  {% set arguments = '(' ~ model ~ ', ' ~ tuskml.features_of(features) ~ ')' %}
  {% if tuskml.has_documents(task) %}{{ return({'perplexity': tuskml.ours('perplexity') ~ arguments}) }}{% endif %}
  {% if tuskml.has_no_label(task) %}
    {% set distance, weighs = tuskml.ours('decision') ~ arguments, weight is not none %}
    {{ return({'mean_squared_distance': 'sum(' ~ weight ~ ' * ' ~ distance ~ ') / sum(case when ' ~ distance
                                        ~ ' is not null then ' ~ weight ~ ' end)' if weighs else 'avg(' ~ distance ~ ')'}) }}
  {% endif %}
  {% set predicted = tuskml.predict(model, features, answer='class_name' if text else 'class', offset=offset) %}
  {% set end = (', ' ~ weight if weight is not none else '') ~ ')' %}
  {% if not tuskml.classifies(task, options) %}
    {{ return({
        'rmse': tuskml.ours('rmse') ~ '(' ~ label ~ ', ' ~ predicted ~ end,
        'mae': tuskml.ours('mae') ~ '(' ~ label ~ ', ' ~ predicted ~ end,
        'r2': tuskml.ours('r2') ~ '(' ~ label ~ ', ' ~ predicted ~ end,
    }) }}
  {% endif %}
  {% set metrics = {} %}
  {% if classes > 2 %}
    {% do metrics.update({'log_loss': tuskml.ours('log_loss') ~ '(' ~ label ~ ', ' ~ tuskml.ours('predict_probas') ~ arguments ~ end}) %}
    {% do metrics.update({'f1_macro': tuskml.ours('f1_score') ~ '(' ~ label ~ ', ' ~ predicted ~ ", 'macro'" ~ end}) %}
  {% else %}
    {% do metrics.update({'auc': tuskml.ours('auc') ~ '(' ~ positive ~ ', ' ~ tuskml.predict(model, features, answer='margin', offset=offset) ~ end}) %}
    {% if tuskml.has_probabilities(task, options) %}
      {% do metrics.update({'log_loss': tuskml.ours('log_loss') ~ '(' ~ positive ~ ', ' ~ tuskml.predict(model, features, answer='probability', offset=offset) ~ end}) %}
    {% endif %}
  {% endif %}
  {% do metrics.update({'accuracy': tuskml.ours('accuracy') ~ '(' ~ label ~ ', ' ~ predicted ~ end}) %}
  {{ return(metrics) }}
{% endmacro %}

{# The names of the metrics that models of a task may have, of two classes or more. #}
{% macro metric_names(task, options) %}
  {% set names = tuskml.metrics_of(task, '', '', '', '', false, options).keys() | list %}
  {% set more = tuskml.metrics_of(task, '', '', '', '', false, options, 3).keys() | list %}
  {{ return((names + more) | unique | list) }}
{% endmacro %}
