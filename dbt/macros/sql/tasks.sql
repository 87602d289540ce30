{# The built-in tasks and what their labels are; scripts/build/tasks.py writes this. #}
{% macro labels_by_task() %}
  {{ return({
    'linear': 'numbers',
    'logistic': 'classes',
    'svm': 'two',
    'squared_hinge': 'two',
    'poisson': 'numbers',
    'negative_binomial': 'numbers',
    'gamma': 'numbers',
    'tweedie': 'numbers',
    'inverse_gaussian': 'numbers',
    'huber': 'numbers',
    'quantile': 'numbers',
    'ordinal': 'levels',
    'matrix_factorization': 'ratings',
    'gbdt': 'either',
    'random_forest': 'either',
    'mlp': 'either',
    'lasso': 'numbers',
    'elastic_net': 'numbers',
    'sparse_logistic': 'two',
    'lda': 'documents',
    'kmeans': 'none',
    'fm': 'either_two',
  }) }}
{% endmacro %}
