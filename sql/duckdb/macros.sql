-- Macros that are written in SQL; the other functions are in the extension.

-- The error of IMPORT DATABASE if it meets these macros and this type and cannot create them
-- (udas/duckdb/settings.c). EXPORT writes types first, in the order of their names.
CREATE TEMP TYPE IF NOT EXISTS "IMPORT an exported database in memory into a database file that tuskml.connect(path) opens" AS BOOLEAN;
CREATE OR REPLACE TEMP MACRO "_tusk: IMPORT an exported database in memory into a database file that tuskml.connect(path) opens"() AS "_tusk: IMPORT an exported database in memory into a database file that tuskml.connect(path) opens."();

-- Sparse features: ids >= 0 and their values, in any order; the values of repeated ids are added.
CREATE OR REPLACE TEMP MACRO tuskml_sparse(indices, vals) AS {'indices': _tusk_ids(indices), 'values': vals};

-- tasks (scripts/build/tasks.py)
CREATE OR REPLACE TEMP MACRO _tusk_has_terms(task) AS task NOT IN ('gbdt', 'random_forest', 'mlp', 'kmeans', 'fm');
CREATE OR REPLACE TEMP MACRO _tusk_weighs_features(task) AS task NOT IN ('ordinal', 'matrix_factorization', 'gbdt', 'random_forest', 'mlp', 'lda', 'kmeans', 'fm');
CREATE OR REPLACE TEMP MACRO _tusk_is_of_trees(task) AS task IN ('gbdt', 'random_forest');
CREATE OR REPLACE TEMP MACRO _tusk_has_centres(task) AS task IN ('kmeans');
CREATE OR REPLACE TEMP MACRO _tusk_is_tested_by_t(task) AS task IN ('linear', 'gamma', 'tweedie', 'inverse_gaussian');
-- end of tasks

-- A value with some or all fields of a model, or the text of a model, as one with all of them. When DuckDB
-- creates a macro it binds it up to the first function of a parameter, whose type it does not know. struct_pack,
-- which the optimizer removes, spares it the long expressions behind, which took most of the time of LOAD.
CREATE OR REPLACE TEMP MACRO _tusk_model(model) AS
    CAST(struct_pack(m := model).m AS STRUCT(
        task VARCHAR, features VARCHAR[], preparation VARCHAR, coef DOUBLE[], intercept DOUBLE, std_err DOUBLE[],
        classes DOUBLE[], class_names VARCHAR[], n_rows BIGINT, n_skipped BIGINT, note VARCHAR, n_features BIGINT,
        loss DOUBLE, history DOUBLE[], iterations BIGINT, converged BOOLEAN, status VARCHAR, plan VARCHAR,
        seconds DOUBLE, options VARCHAR, store VARCHAR, trials VARCHAR, spread DOUBLE[], histogram VARCHAR,
        payload BLOB));

-- The type of models, for columns of tables and for contracts of dbt.
CREATE TEMP TYPE IF NOT EXISTS tuskml_model AS STRUCT(
    task VARCHAR, features VARCHAR[], preparation VARCHAR, coef DOUBLE[], intercept DOUBLE, std_err DOUBLE[],
    classes DOUBLE[], class_names VARCHAR[], n_rows BIGINT, n_skipped BIGINT, note VARCHAR, n_features BIGINT,
    loss DOUBLE, history DOUBLE[], iterations BIGINT, converged BOOLEAN, status VARCHAR, plan VARCHAR,
    seconds DOUBLE, options VARCHAR, store VARCHAR, trials VARCHAR, spread DOUBLE[], histogram VARCHAR,
    payload BLOB);

-- Recomputes the payload of a model from its other fields: for models that were edited, or read
-- from JSON without it.
CREATE OR REPLACE TEMP MACRO tuskml_with_payload(model) AS
    CASE WHEN model IS NOT NULL THEN struct_update(_tusk_model(model), payload := tuskml_model_payload(model)) END;

-- Errors of functions by a model's name in a database without a registry (registry_macros.sql
-- replaces these if there is one). DuckDB takes an aggregate's result, whose type it does not know
-- yet, for a name: typeof checks it again.
CREATE OR REPLACE TEMP MACRO _tusk_no_registry(asked) AS
    error(asked || ': the database has no registry of models, tuskml.models: tuskml models create DATABASE makes one, '
          || 'in Python tuskml.registry.create(connection)');

-- Error of calls by name and group in such a database, or with the features of a model in separate
-- arguments.
CREATE OR REPLACE TEMP MACRO _tusk_three(asked, first) AS
    (CASE WHEN typeof(first) LIKE 'STRUCT(%'
          THEN error(asked || ' got a model and two more arguments, expected (model, features): the features are one list of '
                     || 'numbers, ' || asked || '(model, [a, b])')
          WHEN first IS NOT NULL THEN _tusk_no_registry(asked) END)::DOUBLE;

-- DuckDB takes an aggregate's result, whose type it does not know yet, for a text, which starts
-- like a model's.
CREATE OR REPLACE TEMP MACRO _tusk_payload_of(asked, given) AS
    CASE WHEN given LIKE '{''task'': %' THEN _tusk_model(given).payload
         WHEN given IS NOT NULL THEN _tusk_no_registry(asked) END;

-- The field of a model that predictions read; in a model from JSON or CSV it is text.
CREATE OR REPLACE TEMP MACRO _tusk_payload(model) AS CAST(struct_extract(model, 'payload') AS BLOB);

-- The class in the caller's own values, or the number. DuckDB reads only the payload of a model.
CREATE OR REPLACE TEMP MACRO tuskml_predict
    (model VARCHAR, features) AS _tusk_predict(_tusk_payload_of('predict', model), features),
    (model, features) AS _tusk_predict(_tusk_payload(model), features),
    (model_name, in_group, features) AS _tusk_three('predict', model_name);

-- A class as text. Types that labels cannot have are rejected.
CREATE OR REPLACE TEMP MACRO _tusk_class_text(class_name) AS
    CASE WHEN regexp_matches(typeof(class_name), '^(DATE|TIME|INTERVAL|BLOB|BIT$|STRUCT|MAP|UNION|VARIANT|GEOMETRY)|\[\d*\]$')
         THEN error('predict_proba: class is ' || typeof(class_name) || ', expected the name of a class, or a number or a boolean')
         ELSE CAST(class_name AS VARCHAR) END;

-- The probability of one class.
CREATE OR REPLACE TEMP MACRO _tusk_class_proba(model, features, class_name) AS
    list_extract(_tusk_predict_probas(_tusk_payload(model), features),
                 _tusk_class_place(struct_extract(model, 'class_names'), _tusk_class_text(class_name)));

-- The class by its name. Without a list of names DuckDB would not evaluate its index, and a model
-- of numbers would not be rejected.
CREATE OR REPLACE TEMP MACRO tuskml_predict_class(model, features) AS
    list_extract(coalesce(struct_extract(model, 'class_names'), CAST([] AS VARCHAR[])),
                 CAST(_tusk_predict_class(_tusk_payload(model), features) AS BIGINT));

-- The probabilities of all classes by their names.
CREATE OR REPLACE TEMP MACRO _tusk_named(names, shares) AS CASE WHEN shares IS NOT NULL THEN map(names, shares) END;
CREATE OR REPLACE TEMP MACRO tuskml_predict_probas(model, features) AS
    _tusk_named(struct_extract(model, 'class_names'),
                _tusk_predict_probas(_tusk_payload(model), features));

-- The probability of the higher of two classes, or of a class; logistic models only.
CREATE OR REPLACE TEMP MACRO tuskml_predict_proba
    (model VARCHAR, features) AS _tusk_predict_proba(_tusk_payload_of('predict_proba', model), features),
    (model, features) AS _tusk_predict_proba(_tusk_payload(model), features),
    (model_name VARCHAR, in_group, features) AS _tusk_three('predict_proba', model_name),
    (model, features, class_name) AS _tusk_class_proba(model, features, class_name);

-- The raw margin, coef . features + intercept.
CREATE OR REPLACE TEMP MACRO tuskml_decision
    (model VARCHAR, features) AS _tusk_decision(_tusk_payload_of('decision', model), features),
    (model, features) AS _tusk_decision(_tusk_payload(model), features),
    (model_name, in_group, features) AS _tusk_three('decision', model_name);

-- The class or number, the probability of the higher class, and the class by its name, of the margin plus a number of the row.
CREATE OR REPLACE TEMP MACRO tuskml_predict_with_offset(model, features, "offset") AS
    _tusk_predict_with_offset(_tusk_payload(model), features, CAST("offset" AS DOUBLE));
CREATE OR REPLACE TEMP MACRO tuskml_predict_proba_with_offset(model, features, "offset") AS
    _tusk_predict_proba_with_offset(_tusk_payload(model), features, CAST("offset" AS DOUBLE));
CREATE OR REPLACE TEMP MACRO tuskml_predict_class_with_offset(model, features, "offset") AS
    list_extract(coalesce(struct_extract(model, 'class_names'), CAST([] AS VARCHAR[])),
                 CAST(_tusk_predict_class_with_offset(_tusk_payload(model), features, CAST("offset" AS DOUBLE)) AS BIGINT));

-- The prediction with its standard error, the confidence interval of the mean, and the interval of a
-- label (udas/scalars/models/interval.h).
CREATE OR REPLACE TEMP MACRO tuskml_predict_interval
    (model, features) AS _tusk_predict_interval(_tusk_payload(model), features, 0.95),
    (model, features, level) AS _tusk_predict_interval(_tusk_payload(model), features, CAST(level AS DOUBLE));

-- The average marginal effects of a model's features over rows, an aggregate (udas/scalars/explaining/effects.h).
CREATE OR REPLACE TEMP MACRO tuskml_marginal_effects(model, features, weight := 1, "offset" := 0) AS
    _tusk_marginal_effects(_tusk_payload(model), CAST(struct_extract(model, 'features') AS VARCHAR[]), features,
                           CAST(weight AS DOUBLE), CAST("offset" AS DOUBLE));

-- How far rows are from those that a model was trained on, an aggregate (udas/scalars/drift/drift.h).
CREATE OR REPLACE TEMP MACRO tuskml_drift(model, features, weight := 1) AS
    _tusk_drift(CASE WHEN struct_extract(model, 'histogram') IS NOT NULL THEN CAST(struct_extract(model, 'histogram') AS VARCHAR)
                     WHEN model IS NOT NULL AND struct_extract(model, 'status') <> 'invalid rows'
                     THEN error('drift: the model has no histogram, which rows are compared with: expected one trained with '
                                || 'option {"histogram": true}') END,
                features, CAST(weight AS DOUBLE));

-- The proportions of topics in a document: a list of words, or sparse(ids, counts).
CREATE OR REPLACE TEMP MACRO tuskml_predict_topics
    (model VARCHAR, tokens) AS _tusk_predict_topics(_tusk_payload_of('predict_topics', model), tokens),
    (model, tokens) AS _tusk_predict_topics(_tusk_payload(model), tokens);

-- The most probable words of each topic.
CREATE OR REPLACE TEMP MACRO tuskml_model_topics(model, words := 10) AS TABLE
    SELECT unnest(_tusk_topic_words(_tusk_model(model).payload, CAST(words AS BIGINT)), recursive := true);

-- exp of minus the mean log probability of a token by the topics of the other half of its document, over some documents.
CREATE OR REPLACE TEMP MACRO _tusk_perplexity(judged) AS exp(-sum(judged[1]) / nullif(sum(judged[2]), 0));
CREATE OR REPLACE TEMP MACRO tuskml_perplexity(model, tokens) AS
    _tusk_perplexity(_tusk_complete_document(_tusk_payload(model), tokens));

-- How often the best words of topics occur together in documents: 'c_v' or 'u_mass', the mean over topics.
CREATE OR REPLACE TEMP MACRO tuskml_coherence(model, tokens, measure := 'c_v', words := 20) AS
    _tusk_coherence(any_value(_tusk_payload(model)),
                    list(_tusk_reduce_document(_tusk_payload(model), tokens, measure, CAST(words AS BIGINT))),
                    measure, CAST(words AS BIGINT));

CREATE OR REPLACE TEMP MACRO tuskml_deployed_model(model_name, in_group := '') AS _tusk_no_registry('deployed_model');
CREATE OR REPLACE TEMP MACRO tuskml_register_model(
    model_name, source, in_group := '', metrics := '', recipe := NULL, data_fingerprint := '', as_version := NULL
) AS TABLE SELECT _tusk_no_registry('register_model');
CREATE OR REPLACE TEMP MACRO tuskml_deploy(model_name, to_version := NULL, in_group := NULL) AS TABLE SELECT _tusk_no_registry('deploy');
CREATE OR REPLACE TEMP MACRO tuskml_rollback(model_name, in_group := NULL) AS TABLE SELECT _tusk_no_registry('rollback');

-- One row per coefficient, the intercept first (feature 0): estimate, standard error, z or t, its p-value, the 95% confidence
-- interval and exp(estimate) where that is a ratio; note says why some are missing. The function returns a list of them. A store may have more coefficients than a result can hold:
-- `tuskml store export` writes them. Of a model without standard errors all terms have the same test and note, and its coefficients
-- become rows as they are read: a list of millions of them with texts would take gigabytes.
CREATE OR REPLACE TEMP MACRO _tusk_absorbed(options) AS
    CAST(json_extract(CASE WHEN json_valid(options) THEN options END, '$.absorbed_features') AS BIGINT[]); -- the first feature and how many
CREATE OR REPLACE TEMP MACRO _tusk_of_classes(model) AS model.task = 'logistic' AND len(model.classes) > 2;
CREATE OR REPLACE TEMP MACRO _tusk_is_wide(model) AS
    model.std_err IS NULL AND len(model.coef) > 1024 AND _tusk_has_terms(model.task) AND model.task <> 'ordinal' AND _tusk_absorbed(model.options) IS NULL;
CREATE OR REPLACE TEMP MACRO _tusk_summary_of(model) AS TABLE
SELECT CASE WHEN _tusk_wide THEN CAST(_tusk_i % _tusk_each AS INTEGER) ELSE _tusk_t.feature END AS feature,
       CASE WHEN _tusk_wide THEN
           CASE WHEN _tusk_several THEN _tusk_classes[_tusk_i // _tusk_each + 1] || ': ' ELSE '' END
           || CASE WHEN _tusk_i % _tusk_each = 0 THEN 'intercept'
                   WHEN len(_tusk_names) >= _tusk_each - 1 THEN _tusk_names[_tusk_i % _tusk_each]
                   ELSE 'x' || _tusk_i % _tusk_each END
            ELSE _tusk_t.term END AS term,
       CASE WHEN _tusk_wide THEN _tusk_value ELSE _tusk_t.estimate END AS estimate, _tusk_t.std_err AS std_err,
       CASE WHEN _tusk_wide THEN _tusk_first.test ELSE _tusk_t.test END AS test, _tusk_t.statistic AS statistic,
       _tusk_t.p_value AS p_value, _tusk_t.lower AS lower, _tusk_t.upper AS upper, _tusk_t.ratio AS ratio,
       CASE WHEN _tusk_wide THEN _tusk_first.note ELSE _tusk_t.note END AS note
FROM (
    SELECT _tusk_is_wide(_tusk_m) AS _tusk_wide, _tusk_of_classes(_tusk_m) AS _tusk_several,
           CASE WHEN _tusk_is_wide(_tusk_m) THEN _tusk_m.class_names END AS _tusk_classes,
           CASE WHEN _tusk_of_classes(_tusk_m) THEN len(_tusk_m.coef) // len(_tusk_m.classes)
                ELSE len(_tusk_m.coef) + 1 END AS _tusk_each,
           CASE WHEN _tusk_is_wide(_tusk_m) THEN _tusk_m.features END AS _tusk_names,
           CASE WHEN _tusk_is_wide(_tusk_m) THEN tuskml_model_summary(struct_update(
                    _tusk_m,
                    coef := _tusk_m.coef[1:CASE WHEN _tusk_of_classes(_tusk_m) THEN len(_tusk_m.classes)
                                                           ELSE 0 END]))[1] END AS _tusk_first,
           unnest(CASE WHEN NOT coalesce(_tusk_is_wide(_tusk_m), false) THEN tuskml_model_summary(_tusk_m) END) AS _tusk_t,
           unnest(CASE WHEN _tusk_is_wide(_tusk_m)
                       THEN CASE WHEN _tusk_of_classes(_tusk_m) THEN _tusk_m.coef
                                 ELSE [_tusk_m.intercept] || _tusk_m.coef END END) AS _tusk_value,
           unnest(CASE WHEN _tusk_is_wide(_tusk_m)
                       THEN range(len(_tusk_m.coef) + CASE WHEN _tusk_of_classes(_tusk_m) THEN 0 ELSE 1 END)
                  END) AS _tusk_i
    FROM (SELECT _tusk_model(model) AS _tusk_m));
CREATE OR REPLACE TEMP MACRO tuskml_model_summary(model) AS TABLE FROM _tusk_summary_of(model);

-- The n items with the highest predictions for a user, without those to exclude, such as the ones that the user has seen. A user
-- who was not in the training gets the items that are best for all; basis says so. The functions return lists of the rows.
CREATE OR REPLACE TEMP MACRO tuskml_recommend(model, for_user, n := 10, exclude := []) AS
    _tusk_recommend(_tusk_payload(model), for_user, CAST(n AS BIGINT), CAST(exclude AS VARCHAR[]));
CREATE OR REPLACE TEMP MACRO tuskml_recommend(model, for_user, n := 10, exclude := []) AS TABLE
    SELECT unnest(tuskml_recommend(model, for_user, n := n, exclude := exclude), recursive := true);

-- The n items with the highest predictions for a user who was not in the training, from his ratings of items or choices, without
-- these items.
CREATE OR REPLACE TEMP MACRO tuskml_recommend_by_items(model, items, ratings, n := 10, exclude := []) AS
    _tusk_recommend_by_items(_tusk_payload(model), items, CAST(n AS BIGINT), CAST(exclude AS VARCHAR[]),
                             CAST(ratings AS DOUBLE[]), struct_extract(model, 'options'));
CREATE OR REPLACE TEMP MACRO tuskml_recommend_by_items(model, items, ratings, n := 10, exclude := []) AS TABLE
    SELECT unnest(tuskml_recommend_by_items(model, items, ratings, n := n, exclude := exclude), recursive := true);

-- The n items whose factors are most similar to those of an item, by their cosine.
CREATE OR REPLACE TEMP MACRO tuskml_similar_items(model, to_item, n := 10, exclude := []) AS
    list_transform(_tusk_similar_items(_tusk_payload(model), to_item, CAST(n AS BIGINT),
                                       CAST(exclude AS VARCHAR[])), lambda _tusk_one: struct_pack(item := _tusk_one.item, score := _tusk_one.score));
CREATE OR REPLACE TEMP MACRO tuskml_similar_items(model, to_item, n := 10, exclude := []) AS TABLE
    SELECT unnest(tuskml_similar_items(model, to_item, n := n, exclude := exclude), recursive := true);

-- The text of a JSON field; NULL if a damaged model has another text there.
CREATE OR REPLACE TEMP MACRO _tusk_json(given) AS CASE WHEN json_valid(given) THEN given END;

-- Whether a model was fitted: one of a group that could not be fitted has no rows of fit, trials
-- or path, even if its training requested them.
CREATE OR REPLACE TEMP MACRO _tusk_was_fitted(status) AS
    coalesce(status NOT IN ('invalid rows', 'one class', 'out of range'), true);

-- The covariances of the coefficients of a model that was trained with {"intervals": "covariance"}: all pairs of the terms of
-- model_summary that have a standard error, of several classes without the reference. The model keeps the rows of the Cholesky
-- factor, whose products they are.
CREATE OR REPLACE TEMP MACRO _tusk_root(asked, model) AS
    CASE WHEN model.spread IS NOT NULL AND json_extract_string(_tusk_json(model.options), '$.intervals') = 'covariance' THEN model.spread
         WHEN model.task IS NOT NULL AND _tusk_was_fitted(model.status)
              AND coalesce(json_extract_string(_tusk_json(model.options), '$.intervals'), '') <> 'covariance'
         THEN error(asked || ': the model does not keep the covariance of its coefficients, train it with the option '
                    || '"intervals": "covariance"') END;
CREATE OR REPLACE TEMP MACRO _tusk_rooted_terms(model, size) AS
    list_transform(tuskml_model_summary(model)[-size:], lambda _tusk_t: CASE WHEN _tusk_t.std_err IS NOT NULL THEN _tusk_t.term END);
CREATE OR REPLACE TEMP MACRO tuskml_model_covariance(model) AS TABLE
SELECT _tusk_name AS term, _tusk_other AS with_term, _tusk_item AS covariance
FROM (SELECT _tusk_name, unnest(_tusk_names) AS _tusk_other, unnest(_tusk_row) AS _tusk_item
      FROM (SELECT _tusk_names, unnest(_tusk_names) AS _tusk_name, unnest(_tusk_rows) AS _tusk_row
            FROM (SELECT _tusk_rooted_terms(_tusk_m, len(_tusk_rows)) AS _tusk_names, _tusk_rows
                  FROM (SELECT _tusk_m, _tusk_covariances(_tusk_root('model_covariance', _tusk_m)) AS _tusk_rows
                        FROM (SELECT _tusk_model(model) AS _tusk_m)))))
WHERE _tusk_name IS NOT NULL AND _tusk_other IS NOT NULL;

-- A weighted sum of the coefficients of such a model, tested as model_summary tests a coefficient: as the intercept of a model
-- without features. With the factor L of the covariance its variance w' L L' w is a sum of squares.
CREATE OR REPLACE TEMP MACRO _tusk_as_json(given) AS
    CASE WHEN typeof(given) = 'VARCHAR' THEN CAST(CAST(given AS VARCHAR) AS JSON) ELSE to_json(given) END;
CREATE OR REPLACE TEMP MACRO _tusk_contrast_weights(weights) AS
    CASE WHEN json_type(_tusk_as_json(weights)) = 'OBJECT' THEN CAST(_tusk_as_json(weights) AS MAP(VARCHAR, JSON))
         ELSE error('model_contrast: weights is ' || coalesce(CAST(_tusk_as_json(weights) AS VARCHAR), 'NULL')
                    || ', expected numbers by the terms of model_summary') END;
CREATE OR REPLACE TEMP MACRO _tusk_contrast_terms(model, size, weights) AS
    list_filter(
        list_transform(tuskml_model_summary(model)[-size:], lambda _tusk_t, _tusk_i: struct_pack(
            i := _tusk_i, term := _tusk_t.term, estimate := _tusk_t.estimate, std_err := _tusk_t.std_err,
            weight := CASE WHEN json_type(map_extract_value(weights, _tusk_t.term)) IN ('BIGINT', 'UBIGINT', 'HUGEINT', 'DOUBLE')
                           THEN CAST(map_extract_value(weights, _tusk_t.term) AS DOUBLE) END)),
        lambda _tusk_t: _tusk_t.std_err IS NOT NULL);
CREATE OR REPLACE TEMP MACRO _tusk_checked_contrast(terms, wrong) AS
    CASE WHEN wrong IS NULL THEN list_filter(terms, lambda _tusk_t: _tusk_t.weight IS NOT NULL)
         ELSE error('model_contrast: weights has ''' || wrong || ''', expected numbers by terms that have a standard error: '''
                    || array_to_string(list_transform(terms[1:12], lambda _tusk_t: _tusk_t.term), ''', ''') || '''') END;
CREATE OR REPLACE TEMP MACRO tuskml_model_contrast(model, weights) AS TABLE
WITH _tusk_rooted AS (
    SELECT _tusk_m, _tusk_root('model_contrast', _tusk_m) AS _tusk_l, _tusk_contrast_weights(weights) AS _tusk_w
    FROM (SELECT _tusk_model(model) AS _tusk_m)),
_tusk_sized AS (
    SELECT *, CAST((sqrt(8 * len(_tusk_l) + 1) - 1) / 2 AS BIGINT) AS _tusk_size FROM _tusk_rooted WHERE _tusk_l IS NOT NULL),
_tusk_listed AS (SELECT *, _tusk_contrast_terms(_tusk_m, _tusk_size, _tusk_w) AS _tusk_all FROM _tusk_sized),
_tusk_checked AS (
    SELECT *, _tusk_checked_contrast(
        _tusk_all, list_filter(map_keys(_tusk_w), lambda _tusk_k: NOT list_contains(list_transform(
            list_filter(_tusk_all, lambda _tusk_t: _tusk_t.weight IS NOT NULL), lambda _tusk_t: _tusk_t.term), _tusk_k))[1]) AS _tusk_terms
    FROM _tusk_listed),
_tusk_summed AS (
    SELECT _tusk_m, len(_tusk_all) AS _tusk_known,
           coalesce(list_sum(list_transform(_tusk_terms, lambda _tusk_t: _tusk_t.weight * _tusk_t.estimate)), 0) AS _tusk_estimate,
           sqrt(list_sum(list_transform(range(_tusk_size), lambda _tusk_j: pow(coalesce(list_sum(list_transform(
               list_filter(_tusk_terms, lambda _tusk_t: _tusk_t.i > _tusk_j),
               lambda _tusk_t: _tusk_t.weight * _tusk_l[_tusk_t.i * (_tusk_t.i - 1) // 2 + _tusk_j + 1])), 0), 2)))) AS _tusk_error
    FROM _tusk_checked)
SELECT _tusk_t.estimate AS estimate, _tusk_t.std_err AS std_err, _tusk_t.test AS test, _tusk_t.statistic AS statistic,
       _tusk_t.p_value AS p_value, _tusk_t.lower AS lower, _tusk_t.upper AS upper, _tusk_t.ratio AS ratio
FROM (SELECT unnest(tuskml_model_summary(struct_update(
          _tusk_m, coef := CAST([] AS DOUBLE[]), intercept := _tusk_estimate, std_err := [_tusk_error], features := NULL,
          classes := NULL, class_names := NULL, n_rows := _tusk_m.n_rows - _tusk_known + 1))) AS _tusk_t
      FROM _tusk_summed);

-- Goodness of fit of a model that was trained with {"fit": true}.
CREATE OR REPLACE TEMP MACRO _tusk_fit_number(options, name) AS
    CASE WHEN json_extract(options, '$.deviance') IS NOT NULL THEN CAST(json_extract(options, '$.' || name) AS DOUBLE)
         ELSE error('model_fit: the model does not keep how well it fits, train it with the option "fit": true') END;
CREATE OR REPLACE TEMP MACRO tuskml_model_fit(model) AS TABLE
WITH _tusk_given AS (SELECT _tusk_model(model) AS _tusk_m),
_tusk_found AS (
    SELECT _tusk_m.task AS _tusk_task, _tusk_fit_number(_tusk_json(_tusk_m.options), 'weight') AS _tusk_n,
           _tusk_fit_number(_tusk_json(_tusk_m.options), 'parameters') AS _tusk_p,
           _tusk_fit_number(_tusk_json(_tusk_m.options), 'log_likelihood') AS _tusk_likelihood,
           _tusk_fit_number(_tusk_json(_tusk_m.options), 'deviance') AS _tusk_deviance,
           _tusk_fit_number(_tusk_json(_tusk_m.options), 'null_deviance') AS _tusk_null_deviance,
           _tusk_fit_number(_tusk_json(_tusk_m.options), 'dispersion') AS _tusk_dispersion
    FROM _tusk_given WHERE _tusk_m IS NOT NULL
        AND (_tusk_was_fitted(_tusk_m.status) OR json_extract(_tusk_json(_tusk_m.options), '$.deviance') IS NOT NULL))
SELECT _tusk_n AS n, _tusk_p AS parameters, _tusk_likelihood AS log_likelihood, _tusk_deviance AS deviance,
       _tusk_null_deviance AS null_deviance, 2 * _tusk_p - 2 * _tusk_likelihood AS aic,
       _tusk_p * ln(_tusk_n) - 2 * _tusk_likelihood AS bic,
       CASE WHEN _tusk_null_deviance > 0 THEN 1 - _tusk_deviance / _tusk_null_deviance END AS r2,
       CASE WHEN _tusk_task = 'linear' THEN CASE WHEN _tusk_n > _tusk_p - 1 THEN _tusk_deviance / (_tusk_n - _tusk_p + 1) END
            ELSE coalesce(_tusk_dispersion, 1) END AS dispersion
FROM _tusk_found;

-- Tests of whole terms of a model that was trained with {"fit": true}: a column of a named row, or
-- a feature of a list. Wald tests come first, then likelihood ratios, if the model has them.
CREATE OR REPLACE TEMP MACRO _tusk_terms(options) AS
    CASE WHEN json_extract(options, '$.terms') IS NOT NULL THEN CAST(json_extract(options, '$.terms') AS DOUBLE[][])
         ELSE error('model_terms: the model does not keep tests of its terms, train it with the option "fit": true '
                    || 'and at most 512 features') END;
CREATE OR REPLACE TEMP MACRO tuskml_model_terms(model) AS TABLE
WITH _tusk_given AS (SELECT _tusk_model(model) AS _tusk_m),
_tusk_tested AS (
    SELECT _tusk_m, 0 AS _tusk_likelihood, _tusk_terms(_tusk_json(_tusk_m.options)) AS _tusk_tests FROM _tusk_given WHERE _tusk_m IS NOT NULL
        AND (_tusk_was_fitted(_tusk_m.status) OR json_extract(_tusk_json(_tusk_m.options), '$.terms') IS NOT NULL)
    UNION ALL SELECT _tusk_m, 1, CAST(json_extract(_tusk_json(_tusk_m.options), '$.ratios') AS DOUBLE[][]) FROM _tusk_given WHERE _tusk_m IS NOT NULL),
_tusk_one AS (SELECT _tusk_m, _tusk_likelihood, unnest(_tusk_tests) AS _tusk_t, unnest(range(len(_tusk_tests))) AS _tusk_i FROM _tusk_tested)
SELECT coalesce(json_extract_string(_tusk_json(_tusk_m.preparation), '$.columns[' || _tusk_i || '].name'), _tusk_m.features[_tusk_i + 1], 'x' || (_tusk_i + 1)) AS term,
       CAST(_tusk_t[1] AS INTEGER) AS df,
       CASE WHEN _tusk_likelihood = 1 THEN 'LR' WHEN _tusk_is_tested_by_t(_tusk_m.task) THEN 'F' ELSE 'chi2' END AS test,
       _tusk_t[2] AS statistic, _tusk_t[3] AS p_value
FROM _tusk_one ORDER BY _tusk_likelihood, _tusk_i;

-- The trials of a search: one row per candidate and set of held-out rows, and one with fold NULL
-- for the mean of them.
CREATE OR REPLACE TEMP MACRO tuskml_model_trials(model) AS TABLE
WITH _tusk_given AS (SELECT _tusk_model(model) AS _tusk_m),
_tusk_kept AS (
    SELECT CASE WHEN json_exists(_tusk_json(_tusk_m.trials), '$.trials') THEN _tusk_m.trials
                ELSE error('model_trials: the model is of no search, train it with a list of values for an option') END AS _tusk_trials
    FROM _tusk_given WHERE _tusk_m IS NOT NULL
        AND (_tusk_was_fitted(_tusk_m.status) OR json_exists(_tusk_json(_tusk_m.trials), '$.trials'))),
_tusk_tried AS (
    SELECT unnest(json_extract(_tusk_trials, '$.trials[*]')) AS _tusk_t, unnest(range(CAST(json_array_length(_tusk_trials, '$.trials') AS BIGINT))) AS _tusk_i,
           CAST(json_extract(_tusk_trials, '$.chosen') AS BIGINT) AS _tusk_chosen, json_extract(_tusk_trials, '$.held_out') AS _tusk_held
    FROM _tusk_kept),
_tusk_folds AS (
    SELECT _tusk_t, _tusk_i, _tusk_held, unnest(json_extract(_tusk_t, '$.folds[*]')) AS _tusk_f,
           unnest(range(CAST(json_array_length(_tusk_t, '$.folds') AS BIGINT))) AS fold
    FROM _tusk_tried)
SELECT configuration, fold, iterations, metric, std_err, seconds, status, _tusk_rows AS rows, chosen,
       json_extract_string(_tusk_held, '$[' || fold || ']') AS held_out FROM (
    SELECT _tusk_i, CAST(json_extract(_tusk_t, '$.configuration') AS VARCHAR) AS configuration, NULL AS fold, NULL AS iterations,
           CAST(json_extract(_tusk_t, '$.metric') AS DOUBLE) AS metric, CAST(json_extract(_tusk_t, '$.std_err') AS DOUBLE) AS std_err,
           list_sum(CAST(json_extract(_tusk_t, '$.folds[*].seconds') AS DOUBLE[])) AS seconds, NULL AS status,
           CAST(json_extract(_tusk_t, '$.rows') AS DOUBLE) AS _tusk_rows, _tusk_i = _tusk_chosen AS chosen, _tusk_held
    FROM _tusk_tried
    UNION ALL
    SELECT _tusk_i, CAST(json_extract(_tusk_t, '$.configuration') AS VARCHAR), fold, CAST(json_extract(_tusk_f, '$.iterations') AS BIGINT),
           CAST(json_extract(_tusk_f, '$.metric') AS DOUBLE), NULL, CAST(json_extract(_tusk_f, '$.seconds') AS DOUBLE),
           json_extract_string(_tusk_f, '$.status'), CAST(json_extract(_tusk_t, '$.rows') AS DOUBLE), NULL, _tusk_held
    FROM _tusk_folds)
ORDER BY _tusk_i, fold NULLS FIRST;

-- A path of penalties: one row per penalty, from the largest one on. features has the indices of
-- nonzero weights.
CREATE OR REPLACE TEMP MACRO tuskml_model_path(model) AS TABLE
WITH _tusk_given AS (SELECT _tusk_model(model) AS _tusk_m),
_tusk_kept AS (
    SELECT CASE WHEN json_exists(_tusk_json(_tusk_m.trials), '$.path') THEN _tusk_m.trials
                ELSE error('model_path: the model is of no path, train it by lasso, elastic_net or sparse_logistic '
                           || 'without the option "lambda"') END AS _tusk_trials
    FROM _tusk_given WHERE _tusk_m IS NOT NULL
        AND (_tusk_was_fitted(_tusk_m.status) OR json_exists(_tusk_json(_tusk_m.trials), '$.path'))),
_tusk_steps AS (
    SELECT unnest(json_extract(_tusk_trials, '$.path[*]')) AS _tusk_t, unnest(range(CAST(json_array_length(_tusk_trials, '$.path') AS BIGINT))) AS _tusk_i,
           CAST(json_extract(_tusk_trials, '$.chosen') AS BIGINT) AS _tusk_chosen
    FROM _tusk_kept)
SELECT _tusk_i + 1 AS step, CAST(json_extract(_tusk_t, '$.lambda') AS DOUBLE) AS penalty, CAST(json_extract(_tusk_t, '$.loss') AS DOUBLE) AS loss,
       CAST(json_extract(_tusk_t, '$.gap') AS DOUBLE) AS gap, CAST(json_extract(_tusk_t, '$.held_out') AS DOUBLE) AS held_out,
       CAST(json_extract(_tusk_t, '$.held_out_error') AS DOUBLE) AS held_out_error,
       CAST(json_extract(_tusk_t, '$.intercept') AS DOUBLE) AS intercept, CAST(json_array_length(_tusk_t, '$.feature') AS BIGINT) AS n_weights,
       CAST(json_extract(_tusk_t, '$.feature') AS BIGINT[]) AS features, CAST(json_extract(_tusk_t, '$.weight') AS DOUBLE[]) AS weights,
       _tusk_i = _tusk_chosen AS chosen
FROM _tusk_steps ORDER BY _tusk_i;

-- A label, and features, as SQL writes them: a list of numbers, a row with names, or one expression.
-- What is no expression is the name of a column, such as net sales, or order.
CREATE OR REPLACE TEMP MACRO _tusk_is_refused(given) AS json_extract_string(json_serialize_sql(CAST(given AS VARCHAR)), '$.error') = 'true';
CREATE OR REPLACE TEMP MACRO _tusk_term(given) AS
    CASE WHEN given <> '' AND _tusk_is_refused('SELECT (' || given || chr(10) || ')') THEN '"' || replace(given, '"', '""') || '"'
         ELSE given END;
CREATE OR REPLACE TEMP MACRO _tusk_row_of(features) AS
    '{' || array_to_string(list_transform(json_keys(features), lambda _tusk_name:
        '''' || replace(_tusk_name, '''', '''''') || ''': ('
        || _tusk_term(json_extract_string(features, '/' || replace(replace(_tusk_name, '~', '~0'), '/', '~1'))) || chr(10) || ')'
    ), ', ') || '}';
CREATE OR REPLACE TEMP MACRO _tusk_label_sql(label) AS '(' || _tusk_term(label) || chr(10) || ')';
CREATE OR REPLACE TEMP MACRO _tusk_features_sql(features) AS
    CASE WHEN json_type(to_json(features)) = 'ARRAY' THEN '[' || array_to_string(list_transform(to_json(features)->>'$[*]', lambda _tusk_one: _tusk_term(_tusk_one)), ', ')
              || chr(10) || ']'
         WHEN json_type(to_json(features)) = 'OBJECT' THEN _tusk_row_of(to_json(features))
         ELSE '(' || _tusk_term(to_json(features)->>'$') || chr(10) || ')' END;

-- Options that name the features of a list of columns, unless the options already do.
CREATE OR REPLACE TEMP MACRO _tusk_listed_names(names, options) AS
    CASE WHEN len(list_distinct(names)) < len(names) OR list_bool_or(list_transform(names, lambda _tusk_n: NOT regexp_full_match(_tusk_n, '[A-Za-z_]\w*')))
              OR NOT regexp_full_match(options, '\s*(\{.*)?', 's') OR contains(options, '"feature_names"') THEN options
         ELSE '{"feature_names": ' || to_json(names) || CASE WHEN regexp_full_match(options, '\s*(\{\s*\}\s*)?') THEN '}'
              ELSE ', ' || regexp_replace(options, '^\s*\{', '') END END;
CREATE OR REPLACE TEMP MACRO _tusk_with_names(features, options) AS
    CASE WHEN json_type(to_json(features)) = 'ARRAY' AND len(features::VARCHAR) + len(options) < 30000
         THEN _tusk_listed_names(to_json(features)->>'$[*]', options) ELSE options END;

-- Converts options (text, a STRUCT or a MAP) to JSON text.
CREATE OR REPLACE TEMP MACRO _tusk_options(options) AS
    CASE WHEN typeof(options) IN ('VARCHAR', '"NULL"') THEN coalesce(options::VARCHAR, '') ELSE to_json(options)::VARCHAR END;

-- Converts the keys of groups, one text or a list of them, to a JSON list.
CREATE OR REPLACE TEMP MACRO _tusk_keys(group_by) AS
    CASE WHEN json_type(to_json(group_by)) = 'ARRAY' THEN to_json(group_by)::VARCHAR ELSE json_array(group_by)::VARCHAR END;
CREATE OR REPLACE TEMP MACRO _tusk_keys_sql(keys) AS
    array_to_string(list_transform(CAST(keys AS JSON)->>'$[*]', lambda _tusk_key:
        CASE WHEN _tusk_is_refused('SELECT ' || _tusk_key || chr(10)) THEN _tusk_term(_tusk_key) ELSE _tusk_key END
        || chr(10) || ', '), '');

-- The features as separate SQL expressions.
CREATE OR REPLACE TEMP MACRO _tusk_expressions(features) AS
    CASE json_type(to_json(features)) WHEN 'ARRAY' THEN to_json(features)->>'$[*]'
         WHEN 'OBJECT' THEN list_transform(json_keys(to_json(features)), lambda _tusk_name: json_extract_string(
              to_json(features), '/' || replace(replace(_tusk_name, '~', '~0'), '/', '~1')))
         ELSE [to_json(features)->>'$'] END;
-- Normalises an expression: a column is reduced to its name, without a cast, the table's name,
-- quotes and parentheses; others lose their spaces. A name before a point is a column with fields,
-- unless it is the table, the last name of the source.
CREATE OR REPLACE TEMP MACRO _tusk_plain(term, source) AS regexp_replace(regexp_replace(coalesce(nullif(regexp_extract(lower(term),
    '^[\s(]*(?:cast\s*\(\s*)?((?:[\w$]+\s*\.\s*|"[^"]+"\s*\.\s*)*"?[\w$]+"?)(?:[\s)]*|\s+as\s+[\w\s]+(?:\([\d,\s]+\))?\s*\)[\s)]*)(?:::\s*[\w\s]+(?:\([\d,\s]+\))?[\s)]*)*$', 1), ''),
    lower(term)), '["\s]', '', 'g'), '^(.*\.)?' || regexp_escape(regexp_extract(lower(source), '([\w$]+)"?\s*$', 1)) || '\.', '');
CREATE OR REPLACE TEMP MACRO _tusk_has_label(features, label, source) AS
    list_contains(list_transform(_tusk_expressions(features), lambda _tusk_term_: _tusk_plain(_tusk_term_, source)), _tusk_plain(label, source));

-- The rows of a table, a query or a file, after FROM.
CREATE OR REPLACE TEMP MACRO _tusk_rows_sql(source) AS
    '(' || CASE WHEN regexp_matches(source, '^[\s(]*(SELECT|WITH|FROM|VALUES)\b', 'i') THEN '' ELSE 'FROM ' END || source || chr(10) || ')';

-- Groups that learn from each other: whether options ask for them, the options without that, and the statement, as
-- front/api/pooling.py writes it too.
CREATE OR REPLACE TEMP MACRO _tusk_is_pooled(options) AS coalesce(json_extract_string(_tusk_json(options), '$.pooled') = 'true', false);
CREATE OR REPLACE TEMP MACRO _tusk_without_pooled(options) AS
    CASE WHEN _tusk_is_pooled(options) THEN CAST(json_merge_patch(options, '{"pooled": null}') AS VARCHAR) ELSE options END;
CREATE OR REPLACE TEMP MACRO _tusk_pooled_sql(task, label, features, options, rows, keys, extras) AS
    CASE WHEN keys = '[]' THEN error('train: option ''pooled'' is given without group_by, expected both')
         WHEN extras <> '' THEN error('train: option ''pooled'' is not available with weight or offset: train without them, or without ''pooled''')
         ELSE 'WITH _tusk_given AS (SELECT ' || _tusk_keys_sql(keys) || label || ' AS _tusk_y, ' || features || ' AS _tusk_x FROM ' || rows || '), '
              || '_tusk_rows AS MATERIALIZED (SELECT *, dense_rank() OVER (ORDER BY row(*COLUMNS(* EXCLUDE (_tusk_y, _tusk_x)))) AS _tusk_group FROM _tusk_given), '
              || '_tusk_pooled AS MATERIALIZED (SELECT coalesce(_tusk_pool(''' || task || ''', _tusk_y, _tusk_x, ''' || options || ''', 1, _tusk_group), '''') '
              || 'AS _tusk_handle FROM _tusk_rows) SELECT * EXCLUDE (_tusk_y, _tusk_x, _tusk_group, _tusk_handle), '
              || '_tusk_take_model(_tusk_handle, CASE WHEN _tusk_y IS NOT NULL THEN _tusk_group END, _tusk_x, '''') AS _tusk_trained '
              || 'FROM _tusk_rows, _tusk_pooled GROUP BY ALL' END;

-- A training on a table, a query or files ('''trips.parquet''') whose label and features are SQL as text. The features are
-- a list of columns, a STRUCT of names with expressions, or one expression that is an array, a row or sparse(...). It
-- returns one row, the model's fields, or with group_by a row per group, its keys and its model, and can run no statement
-- but one SELECT. Where the options allow it, _tusk_rounds writes a statement that reads some row groups, or trains on a
-- cluster; of a list whose columns are not all numbers, one by name.
CREATE OR REPLACE TEMP MACRO tuskml_train(source, task, label, features, options := '', weight := '', "offset" := '', group_by := []) AS TABLE
FROM query(CASE WHEN _tusk_has_label(features, label, source)
                THEN error('train: features has the label ''' || label || ''' itself, expected columns to predict it from')
                WHEN _tusk_keys(group_by) = '[]' THEN 'SELECT unnest(_tusk_trained) FROM ('
                ELSE 'SELECT * RENAME (_tusk_trained AS model) FROM (' END || coalesce(
    _tusk_rounds(source, task, _tusk_label_sql(label), _tusk_features_sql(features), _tusk_options(options), _tusk_term(weight), _tusk_term("offset"),
                 _tusk_with_names(features, _tusk_options(options)), _tusk_keys(group_by)),
    CASE WHEN _tusk_is_pooled(_tusk_options(options)) THEN _tusk_pooled_sql(
        replace(task, '''', ''''''), _tusk_label_sql(label), _tusk_features_sql(features),
        replace(_tusk_with_names(features, _tusk_without_pooled(_tusk_options(options))), '''', ''''''),
        _tusk_rows_sql(source), _tusk_keys(group_by), weight || "offset") END,
    'SELECT ' || _tusk_keys_sql(_tusk_keys(group_by)) || 'tuskml_train_model(''' || replace(task, '''', '''''') || ''', ' || _tusk_label_sql(label) || ', '
    || _tusk_features_sql(features) || ', ''' || replace(_tusk_with_names(features, _tusk_options(options)), '''', '''''') || ''''
    || CASE WHEN weight <> '' OR "offset" <> '' THEN ', (' || coalesce(nullif(_tusk_term(weight), ''), '1') || chr(10) || ')' ELSE '' END
    || CASE WHEN "offset" <> '' THEN ', (' || _tusk_term("offset") || chr(10) || ')' ELSE '' END
    || ') AS _tusk_trained FROM ' || _tusk_rows_sql(source)
    || CASE WHEN _tusk_keys(group_by) = '[]' THEN '' ELSE ' GROUP BY ALL' END) || ')');

-- The numbers of a model of trees (in the order of udas/scalars/models/trees.c), or an error for
-- another model.
CREATE OR REPLACE TEMP MACRO _tusk_trees_of(asked, model) AS
    CASE WHEN _tusk_is_of_trees(model.task) AND model.n_features NOT BETWEEN 0 AND 16777216
         THEN error(asked || ': the model has ' || model.n_features || ' features, expected at most 16777216')
         WHEN _tusk_is_of_trees(model.task) THEN coalesce(model.coef, _tusk_tree_numbers(model.payload))
         WHEN model IS NOT NULL THEN error(asked || ': the model is ''' || model.task || ''', expected a model of trees') END;

-- A node of a tree is a list (udas/duckdb/summaries/tree_numbers.c). No step joins nodes, since each row of a join would have a copy of the model.

-- One row a node: splits send rows of up to `threshold`, or of the levels in `levels`, to the left, and leaves add `value` to the margin.
CREATE OR REPLACE TEMP MACRO tuskml_tree_dump(model) AS TABLE
SELECT _tusk_node[1]::BIGINT AS tree, _tusk_node[2]::BIGINT AS node,
       CASE WHEN _tusk_node[3] >= 0 THEN coalesce(_tusk_name, 'x' || (_tusk_node[3]::BIGINT + 1)) END AS feature,
       CASE WHEN _tusk_node[3] >= 0 AND _tusk_node[8] < 2 THEN _tusk_node[4] END AS threshold,
       CASE WHEN _tusk_node[3] >= 0 THEN (_tusk_node[2] + 1)::BIGINT END AS left_child,
       CASE WHEN _tusk_node[3] >= 0 THEN _tusk_node[5]::BIGINT END AS right_child,
       CASE WHEN _tusk_node[3] < 0 THEN _tusk_node[4] END AS value,
       CASE WHEN _tusk_node[3] >= 0 THEN _tusk_node[6] END AS gain, _tusk_node[7]::BIGINT AS n_rows,
       CASE WHEN _tusk_node[3] >= 0 THEN _tusk_node[8] = 1 END AS missing_left,
       CASE WHEN _tusk_node[9] > 1 THEN _tusk_class_names[(_tusk_node[1]::BIGINT - 1) % _tusk_node[9]::BIGINT + 1] END AS class,
       CASE WHEN _tusk_node[8] = 2
            THEN list_transform(_tusk_node[10:], lambda _tusk_l:
                 coalesce(_tusk_of_name[_tusk_l::BIGINT + 1], CASE WHEN _tusk_l = len(_tusk_of_name) THEN 'missing' END, CAST(_tusk_l::BIGINT AS VARCHAR))) END AS levels
FROM (
    SELECT _tusk_node, _tusk_name, _tusk_class_names,
           CASE WHEN _tusk_node[8] = 2 THEN _tusk_levels[list_position(_tusk_columns, _tusk_name)].levels END AS _tusk_of_name
    FROM (
        SELECT _tusk_node, _tusk_class_names, _tusk_levels, _tusk_columns,
               CASE WHEN _tusk_node[3] >= 0 THEN _tusk_names[_tusk_node[3]::BIGINT + 1] END AS _tusk_name
        FROM (
            SELECT _tusk_m.features AS _tusk_names, _tusk_m.class_names AS _tusk_class_names, _tusk_levels,
                   list_transform(_tusk_levels, lambda _tusk_c: _tusk_c.name) AS _tusk_columns, unnest(_tusk_tree_nodes(_tusk_trees_of('tree_dump', _tusk_m))) AS _tusk_node
            FROM (
                SELECT _tusk_m, list_filter(from_json(json_extract(_tusk_json(_tusk_m.preparation), '$.columns'), '[{"name": "VARCHAR", "kind": "VARCHAR", "levels": ["VARCHAR"]}]'),
                                            lambda _tusk_c: _tusk_c.kind = 'levels') AS _tusk_levels
                FROM (SELECT _tusk_model(model) AS _tusk_m)))))
ORDER BY tree, node;

-- Total gain and number of the splits by each feature; the most important first.
CREATE OR REPLACE TEMP MACRO tuskml_feature_importance(model) AS TABLE
SELECT coalesce(_tusk_names[_tusk_f[1]::BIGINT], 'x' || _tusk_f[1]::BIGINT) AS feature, _tusk_f[2] AS gain, _tusk_f[3]::BIGINT AS splits
FROM (SELECT _tusk_m.features AS _tusk_names, unnest(_tusk_tree_gains(
          coalesce(_tusk_trees_of('feature_importance', _tusk_m), CAST([] AS DOUBLE[])), _tusk_m.n_features)) AS _tusk_f
      FROM (SELECT _tusk_model(model) AS _tusk_m))
ORDER BY gain DESC, _tusk_f[1];

-- Contribution of each feature of a row to the margin of a class, for two classes the higher one:
-- with the base value they add up to it. An explanation (udas/scalars/explaining/contributions.h)
-- is a list: the number of margins, a value for each feature, and for each margin its base value
-- and contributions. Its rows, the base value first, are made a chunk at a time: a list of them
-- would take many times the memory of a wide model.
CREATE OR REPLACE TEMP MACRO tuskml_explain_prediction(model, features) AS TABLE
SELECT CASE WHEN _tusk_i % _tusk_width = 0 THEN 'base value' ELSE coalesce(_tusk_names[_tusk_i % _tusk_width], 'x' || _tusk_i % _tusk_width) END AS feature,
       CASE WHEN _tusk_i % _tusk_width > 0 THEN _tusk_told[1 + _tusk_i % _tusk_width] END AS value,
       _tusk_told[1 + _tusk_width + _tusk_i] AS contribution,
       CASE WHEN _tusk_told[1] > 1 THEN _tusk_class_names[1 + _tusk_i // _tusk_width]
            WHEN len(_tusk_class_names) = 2 THEN _tusk_class_names[2] END AS class
FROM (SELECT *, unnest(range(CAST(_tusk_told[1] AS BIGINT) * _tusk_width)) AS _tusk_i
      FROM (SELECT *, CAST((len(_tusk_told) - 1 - _tusk_told[1]) / (_tusk_told[1] + 1) AS BIGINT) + 1 AS _tusk_width
            FROM (SELECT _tusk_explain_prediction(_tusk_payload(model), features) AS _tusk_told,
                         struct_extract(model, 'features') AS _tusk_names, struct_extract(model, 'class_names') AS _tusk_class_names)));

-- A model in one row that a person reads, its numbers in four digits. effects: of up to five terms the coefficient, those with the
-- largest statistic first, without standard errors those with the largest coefficient; of trees, features by their share of the gain.
CREATE OR REPLACE TEMP MACRO _tusk_short(x) AS CAST(printf('%.4g', x) AS DOUBLE);
CREATE OR REPLACE TEMP MACRO _tusk_name_of(names, i, width) AS CASE WHEN len(names) >= width THEN names[i] ELSE 'x' || i END;
CREATE OR REPLACE TEMP MACRO _tusk_strongest(effects) AS list_sort(list_filter(effects, lambda _tusk_e: _tusk_e.effect <> 0 AND _tusk_e.feature > 0))[1:5];
CREATE OR REPLACE TEMP MACRO _tusk_effects_of_weights(estimates, errors, width, names, class_names, absorbed := CAST(NULL AS BIGINT[])) AS
    array_to_string(list_transform(
        _tusk_strongest(list_transform(list_zip(estimates, errors), lambda _tusk_e, _tusk_i: struct_pack(
            last := -CASE WHEN list_count(errors) = 0 THEN abs(_tusk_e[1]) ELSE coalesce(abs(_tusk_e[1] / nullif(_tusk_e[2], 0)), 0) END,
            place := _tusk_i, feature := (_tusk_i - 1) % width,
            effect := CASE WHEN _tusk_i - 1 BETWEEN absorbed[1] AND absorbed[1] + absorbed[2] - 1 THEN 0 ELSE _tusk_e[1] END))),
        lambda _tusk_t: CASE WHEN class_names IS NULL THEN '' ELSE class_names[(_tusk_t.place - 1) // width + 1] || ': ' END
                        || _tusk_name_of(names, _tusk_t.feature, width - 1) || printf(' %+.4g', _tusk_t.effect)), ', ');
CREATE OR REPLACE TEMP MACRO _tusk_effects_of_gains(gains, names, width) AS
    array_to_string(list_transform(
        _tusk_strongest(list_transform(gains, lambda _tusk_e: struct_pack(
            last := -_tusk_e[2], place := CAST(_tusk_e[1] AS BIGINT), feature := CAST(_tusk_e[1] AS BIGINT), effect := _tusk_e[2]))),
        lambda _tusk_t: _tusk_name_of(names, _tusk_t.feature, width)
                        || printf(' %.0f %%', 100 * _tusk_t.effect / list_sum(list_transform(gains, lambda _tusk_g: _tusk_g[2])))), ', ');
CREATE OR REPLACE TEMP MACRO _tusk_effects(model) AS nullif(CASE
    WHEN _tusk_is_of_trees(model.task) THEN
        _tusk_effects_of_gains(_tusk_tree_gains(coalesce(_tusk_trees_of('model_card', model), CAST([] AS DOUBLE[])), model.n_features),
                               model.features, model.n_features)
    WHEN _tusk_weighs_features(model.task) AND _tusk_of_classes(model) THEN
        _tusk_effects_of_weights(model.coef, coalesce(model.std_err, CAST([] AS DOUBLE[])), greatest(len(model.coef) // len(model.classes), 1),
                                 model.features, model.class_names)
    WHEN model.task = 'ordinal' THEN -- the last threshold takes the intercept's place
        _tusk_effects_of_weights(model.coef[len(model.classes) - 1:], coalesce(model.std_err, CAST([] AS DOUBLE[]))[len(model.classes) - 1:],
                                 model.n_features + 1, model.features, CAST(NULL AS VARCHAR[]))
    WHEN _tusk_weighs_features(model.task) THEN
        _tusk_effects_of_weights([model.intercept] || model.coef, coalesce(model.std_err, CAST([] AS DOUBLE[])), len(model.coef) + 1,
                                 model.features, CAST(NULL AS VARCHAR[]), _tusk_absorbed(model.options))
    END, '');
CREATE OR REPLACE TEMP MACRO _tusk_held_out(trials) AS CAST(coalesce(
    json_extract(trials, '$.trials[' || json_extract(trials, '$.chosen') || '].metric'),
    json_extract(trials, '$.path[' || json_extract(trials, '$.chosen') || '].held_out')) AS DOUBLE);
CREATE OR REPLACE TEMP MACRO tuskml_model_card(model) AS
    list_transform([_tusk_model(model)], lambda _tusk_m: CASE WHEN _tusk_m IS NOT NULL THEN struct_pack(
        task := _tusk_m.task, status := _tusk_m.status, n_rows := _tusk_m.n_rows, loss := _tusk_short(_tusk_m.loss),
        held_out := _tusk_short(_tusk_held_out(_tusk_json(_tusk_m.trials))), effects := _tusk_effects(_tusk_m)) END)[1];
CREATE OR REPLACE TEMP MACRO tuskml_model_card(model) AS TABLE
    SELECT unnest(_tusk_card, recursive := true) FROM (SELECT tuskml_model_card(model) AS _tusk_card) WHERE _tusk_card IS NOT NULL;

-- What the model answers as an expression in plain SQL, which needs no extension.
CREATE OR REPLACE TEMP MACRO tuskml_model_to_sql(model, answer := 'predict', class := NULL) AS
    list_transform([_tusk_model(model)], lambda _tusk_m: _tusk_write_sql(CASE WHEN _tusk_m IS NOT NULL THEN CAST(json_object(
        'model', to_json(_tusk_m), 'payload', hex(_tusk_m.payload), 'answer', answer, 'class', CAST(class AS VARCHAR)) AS VARCHAR) END))[1];

-- A text that is equal for models that predict the same and were trained on as many rows, whatever time that took.
CREATE OR REPLACE TEMP MACRO tuskml_model_fingerprint(model) AS
    list_transform([_tusk_model(model)], lambda _tusk_m: CASE WHEN _tusk_m IS NOT NULL THEN md5(
        coalesce(_tusk_m.task, '') || '|' || coalesce(_tusk_m.status, '') || '|' || coalesce(CAST(_tusk_m.n_rows AS VARCHAR), '') || '|'
        || coalesce(CAST(_tusk_m.n_skipped AS VARCHAR), '') || '|' || coalesce(md5(_tusk_m.payload), '')) END)[1];

-- The versions that partition_model kept under names, each a row; error says why one cannot be read.
CREATE OR REPLACE TEMP MACRO tuskml_partitionings() AS TABLE
WITH _tusk_told AS (SELECT (tuskml_partition_model([]::INTEGER[], '{"list": true}')).explanation AS _tusk_list)
SELECT unnest(from_json(_tusk_list, '[{"partitioning": "VARCHAR", "version": "BIGINT", "created": "TIMESTAMPTZ", "size": "BIGINT",
    "features": "BIGINT", "keys": "BIGINT", "others": "VARCHAR", "rows_seen": "BIGINT", "requests_before": "DOUBLE",
    "requests_after": "DOUBLE", "error": "VARCHAR"}]'), recursive := true)
FROM _tusk_told;

-- The names of the features; a single array has none.
CREATE OR REPLACE TEMP MACRO _tusk_expression_names(features) AS
    CASE json_type(to_json(features)) WHEN 'ARRAY' THEN to_json(features)->>'$[*]' WHEN 'OBJECT' THEN json_keys(to_json(features))
         ELSE []::VARCHAR[] END;
CREATE OR REPLACE TEMP MACRO _tusk_quoted(name) AS '''' || replace(name, '''', '''''') || '''';
-- Concatenates the text `each` for each of the columns _tusk_c1, _tusk_c2, ..., with % replaced by
-- its number.
CREATE OR REPLACE TEMP MACRO _tusk_each(features, each) AS
    array_to_string(list_transform(range(1, len(_tusk_expressions(features)) + 1), lambda _tusk_i: replace(each, '%', CAST(_tusk_i AS VARCHAR))), ', ');
-- A prediction from these columns, for a model of lists, or of rows with names. % stands for the
-- features.
CREATE OR REPLACE TEMP MACRO _tusk_answer_sql(features, call) AS
    CASE WHEN len(_tusk_expression_names(features)) = 0 THEN replace(call, '%', '_tusk_c1')
         ELSE 'CASE WHEN _tusk_m._tusk_of_lists THEN ' || replace(call, '%', '[' || _tusk_each(features, 'TRY_CAST(_tusk_c% AS DOUBLE)') || ']') || ' ELSE '
              || replace(call, '%', '{' || array_to_string(list_transform(_tusk_expression_names(features),
                                        lambda _tusk_name, _tusk_i: _tusk_quoted(_tusk_name) || ': _tusk_c' || _tusk_i), ', ') || '}') || ' END' END;
-- The rows of a source, `given`, and the first model of each group, `models`. Groups have texts as keys, '' where there are none.
CREATE OR REPLACE TEMP MACRO _tusk_given_sql(source, model, label, features, group_by) AS
    'WITH _tusk_given AS (SELECT coalesce(''='' || CAST((' || coalesce(nullif(group_by, ''), 'NULL') || chr(10) || ') AS VARCHAR), '''') AS _tusk_g, ('
    || model || chr(10) || ') AS _tusk_model_given, (' || label || chr(10) || ') AS _tusk_y, '
    || array_to_string(list_transform(_tusk_expressions(features), lambda _tusk_e, _tusk_i: '(' || _tusk_e || chr(10) || ') AS _tusk_c' || _tusk_i), ', ') || ' FROM ('
    || CASE WHEN regexp_matches(source, '^[\s(]*(SELECT|WITH|FROM|VALUES)\b', 'i') THEN '' ELSE 'FROM ' END || source || chr(10) || ')), '
    || '_tusk_models AS MATERIALIZED (SELECT _tusk_g, any_value(struct_pack(payload := _tusk_model_given.payload, class_names := _tusk_model_given.class_names, '
    || 'features := _tusk_model_given.features, _tusk_of_lists := _tusk_model_given.preparation IS NULL, _tusk_probable := _tusk_model_given.class_names IS NOT NULL '
    || 'AND _tusk_model_given.task <> ''svm'' AND coalesce(json_extract_string(_tusk_model_given.options, ''$.response''), ''logistic'') = ''logistic'')) '
    || 'AS _tusk_m FROM _tusk_given WHERE _tusk_model_given IS NOT NULL GROUP BY _tusk_g), ';
-- The loss of a row: by the probability of its class, by the correctness of the class, or by the
-- squared error.
CREATE OR REPLACE TEMP MACRO _tusk_row_loss(_tusk_m, _tusk_answer, label) AS
    CASE WHEN _tusk_m._tusk_probable THEN -ln(CASE WHEN _tusk_answer < 1e-15 THEN 1e-15 ELSE _tusk_answer END)
         WHEN _tusk_m.class_names IS NOT NULL THEN 1 - _tusk_answer ELSE (_tusk_answer - TRY_CAST(label AS DOUBLE)) ** 2 END;
CREATE OR REPLACE TEMP MACRO _tusk_loss_sql(features) AS
    '_tusk_row_loss(_tusk_m, ' || _tusk_answer_sql(features,
        -- a class that the model never saw has the probability 0, unless features are NULL
        'CASE WHEN _tusk_m._tusk_probable THEN coalesce(tuskml_predict_proba(_tusk_m, %, CAST(_tusk_y AS VARCHAR)), '
        || '0 * tuskml_predict_proba(_tusk_m, %, _tusk_m.class_names[1]))'
        || ' WHEN _tusk_m.class_names IS NOT NULL THEN CAST(CAST(tuskml_predict_class(_tusk_m, %) = coalesce(_tusk_m.class_names[_tusk_class_place(_tusk_m.class_names, CAST(_tusk_y AS VARCHAR))], CAST(_tusk_y AS VARCHAR)) AS INTEGER) AS DOUBLE)'
        || ' ELSE tuskml_predict(_tusk_m, %) END') || ', _tusk_y)';
-- The columns after feature j took its values from the row d.
CREATE OR REPLACE TEMP MACRO _tusk_permuted_sql(features) AS
    CASE WHEN len(_tusk_expression_names(features)) = 0
         THEN 'list_transform(_tusk_r._tusk_c1, lambda _tusk_v, _tusk_p: CASE WHEN _tusk_p = _tusk_j THEN _tusk_d._tusk_c1[_tusk_p] ELSE _tusk_v END) AS _tusk_c1'
         ELSE _tusk_each(features, 'CASE WHEN _tusk_j = % THEN _tusk_d._tusk_c% ELSE _tusk_r._tusk_c% END AS _tusk_c%') END;

-- How much the mean loss of rows rises if the values of one feature are shuffled among them (L. Breiman, Random forests, Machine
-- Learning 45, 2001), per group. All arguments but the last two are SQL as text, as those of train. Rows are numbered in
-- the order of their values, so that the order in which they are read changes nothing.
CREATE OR REPLACE TEMP MACRO tuskml_permutation_importance(source, model, label, features, group_by := '', repeats := 5, seed := 0) AS TABLE
FROM query(_tusk_given_sql(source, model, label, features, group_by)
    || '_tusk_rows AS MATERIALIZED (SELECT row_number() OVER (PARTITION BY _tusk_g ORDER BY _tusk_y ASC, ' || _tusk_each(features, '_tusk_c% ASC') || ') AS _tusk_i, * '
    || 'FROM (SELECT _tusk_g, _tusk_y, ' || _tusk_each(features, '_tusk_c%') || ', ' || _tusk_loss_sql(features) || ' AS _tusk_loss FROM _tusk_given JOIN _tusk_models USING (_tusk_g) '
    || 'WHERE _tusk_y IS NOT NULL) WHERE _tusk_loss IS NOT NULL), '
    || '_tusk_donors AS (SELECT _tusk_g, _tusk_i, _tusk_k, row_number() OVER (PARTITION BY _tusk_g, _tusk_k ORDER BY md5(concat_ws('':'', ' || CAST(seed AS BIGINT) || ', _tusk_k, _tusk_i)) ASC, _tusk_i ASC) AS _tusk_place '
    || 'FROM _tusk_rows, range(' || CAST(repeats AS BIGINT) || ') AS _tusk_t (_tusk_k)), '
    || '_tusk_places AS (SELECT _tusk_g, unnest(range(1, 1 + ' || CASE WHEN len(_tusk_expression_names(features)) = 0 THEN 'max(len(_tusk_c1))'
                                                       ELSE CAST(len(_tusk_expressions(features)) AS VARCHAR) END || ')) AS _tusk_j FROM _tusk_rows GROUP BY _tusk_g), '
    || '_tusk_changed AS (SELECT _tusk_r._tusk_g, _tusk_r._tusk_y, _tusk_j, _tusk_k, ' || _tusk_permuted_sql(features) || ' FROM _tusk_rows AS _tusk_r JOIN _tusk_donors AS _tusk_o ON _tusk_o._tusk_g = _tusk_r._tusk_g AND _tusk_o._tusk_i = _tusk_r._tusk_i '
    || 'JOIN _tusk_rows AS _tusk_d ON _tusk_d._tusk_g = _tusk_o._tusk_g AND _tusk_d._tusk_i = _tusk_o._tusk_place JOIN _tusk_places ON _tusk_places._tusk_g = _tusk_r._tusk_g), '
    || '_tusk_losses AS (SELECT _tusk_g, _tusk_j, _tusk_k, avg(' || _tusk_loss_sql(features) || ') AS _tusk_loss FROM _tusk_changed JOIN _tusk_models USING (_tusk_g) GROUP BY _tusk_g, _tusk_j, _tusk_k), '
    || '_tusk_plain AS (SELECT _tusk_g, avg(_tusk_loss) AS _tusk_loss FROM _tusk_rows GROUP BY _tusk_g) '
    || 'SELECT CASE WHEN _tusk_g <> '''' THEN substr(_tusk_g, 2) END AS in_group, '
    || CASE WHEN len(_tusk_expression_names(features)) = 0 THEN 'coalesce(any_value(_tusk_m.features)[_tusk_j], ''x'' || _tusk_j)'
            ELSE '[' || array_to_string(list_transform(_tusk_expression_names(features), lambda _tusk_name: _tusk_quoted(_tusk_name)), ', ') || '][_tusk_j]' END
    || ' AS feature, avg(_tusk_losses._tusk_loss) - any_value(_tusk_plain._tusk_loss) AS importance, stddev_pop(_tusk_losses._tusk_loss) AS std_dev, any_value(_tusk_plain._tusk_loss) AS loss '
    || 'FROM _tusk_losses JOIN _tusk_plain USING (_tusk_g) JOIN _tusk_models USING (_tusk_g) GROUP BY _tusk_g, _tusk_j ORDER BY _tusk_g, importance DESC, _tusk_j');

-- The index of a feature among the columns, or in a single array.
CREATE OR REPLACE TEMP MACRO _tusk_place_sql(features, feature) AS
    CASE WHEN len(_tusk_expression_names(features)) = 0
         THEN 'coalesce(list_position(_tusk_m.features, ' || _tusk_quoted(feature) || '), try_cast(regexp_extract(' || _tusk_quoted(feature)
              || ', ''^x([1-9]\d*)$'', 1) AS BIGINT), error(''partial_dependence: feature is '' || ' || _tusk_quoted(_tusk_quoted(feature))
              || ' || '', expected a name of the model''''s features, or x1, x2, ...''))'
         ELSE CAST(coalesce(nullif(list_position(_tusk_expression_names(features), feature), 0),
              error('partial_dependence: feature is ' || _tusk_quoted(feature) || ', expected one of '
                    || array_to_string(_tusk_expression_names(features), ', '))) AS VARCHAR) END;
-- Number of the wanted shares, 5 % to 95 % of the rows, that are reached by _tusk_rows rows.
CREATE OR REPLACE TEMP MACRO _tusk_shares_reached(_tusk_rows, _tusk_total, points) AS
    CASE WHEN 20 * _tusk_rows < _tusk_total THEN 0 ELSE least(greatest(points - 1, 1) * (20 * _tusk_rows - _tusk_total) // (18 * _tusk_total) + 1, points) END;
-- Mean prediction over rows with one feature set to the same value in all of them (J. Friedman,
-- Greedy function approximation, Annals of Statistics 29, 2001, section 8.2): for all values that
-- occur, or for many numbers those at equal shares of the rows from 5 % to 95 %, and for many
-- texts the most frequent ones.
CREATE OR REPLACE TEMP MACRO tuskml_partial_dependence(source, model, features, feature, group_by := '', points := 50) AS TABLE
FROM query(_tusk_given_sql(source, model, 'NULL', features, group_by)
    || '_tusk_rows AS MATERIALIZED (SELECT _tusk_given.*, ' || _tusk_place_sql(features, feature) || ' AS _tusk_place FROM _tusk_given JOIN _tusk_models USING (_tusk_g)), '
    || '_tusk_counted AS (SELECT _tusk_g, _tusk_v, count(*) AS _tusk_n, typeof(_tusk_v) SIMILAR TO ''VARCHAR|BOOLEAN|ENUM.*'' AS _tusk_by_count FROM (SELECT _tusk_g, '
    || CASE WHEN len(_tusk_expression_names(features)) = 0 THEN '_tusk_c1[_tusk_place]' ELSE '_tusk_c' || _tusk_place_sql(features, feature) END
    || ' AS _tusk_v FROM _tusk_rows) WHERE _tusk_v IS NOT NULL AND lower(CAST(_tusk_v AS VARCHAR)) <> ''nan'' GROUP BY _tusk_g, _tusk_v), '
    || '_tusk_ranked AS (SELECT *, sum(_tusk_n) OVER (PARTITION BY _tusk_g ORDER BY _tusk_v ASC) AS _tusk_up, sum(_tusk_n) OVER (PARTITION BY _tusk_g) AS _tusk_total, '
    || 'count(*) OVER (PARTITION BY _tusk_g) AS _tusk_levels, row_number() OVER (PARTITION BY _tusk_g ORDER BY _tusk_n DESC, _tusk_v ASC) AS _tusk_rank FROM _tusk_counted), '
    || '_tusk_grid AS (SELECT _tusk_g, _tusk_v FROM _tusk_ranked WHERE _tusk_levels <= ' || points || ' OR CASE WHEN _tusk_by_count THEN _tusk_rank <= ' || points
    || ' ELSE _tusk_shares_reached(_tusk_up, _tusk_total, ' || points || ') > _tusk_shares_reached(_tusk_up - _tusk_n, _tusk_total, ' || points || ') END), '
    || '_tusk_classes AS (SELECT _tusk_g, unnest(CASE WHEN _tusk_m._tusk_probable THEN _tusk_m.class_names[greatest(1, 4 - len(_tusk_m.class_names)):] ELSE [NULL] END) AS class FROM _tusk_models), '
    || '_tusk_changed AS (SELECT _tusk_g, _tusk_v, '
    || CASE WHEN len(_tusk_expression_names(features)) = 0 THEN 'list_transform(_tusk_c1, lambda _tusk_e, _tusk_p: CASE WHEN _tusk_p = _tusk_place THEN _tusk_v ELSE _tusk_e END) AS _tusk_c1'
            ELSE array_to_string(list_transform(range(1, len(_tusk_expressions(features)) + 1), lambda _tusk_i:
                 CASE WHEN CAST(_tusk_i AS VARCHAR) = _tusk_place_sql(features, feature) THEN '_tusk_v' ELSE '_tusk_c' || _tusk_i END || ' AS _tusk_c' || _tusk_i), ', ') END
    || ' FROM _tusk_rows JOIN _tusk_grid USING (_tusk_g)), '
    || '_tusk_answers AS (SELECT _tusk_g, _tusk_v, class, CASE WHEN class IS NOT NULL THEN ' || _tusk_answer_sql(features, 'tuskml_predict_proba(_tusk_m, %, class)')
    || ' WHEN _tusk_m.class_names IS NOT NULL THEN ' || _tusk_answer_sql(features, 'tuskml_decision(_tusk_m, %)') || ' ELSE '
    || _tusk_answer_sql(features, 'tuskml_predict(_tusk_m, %)') || ' END AS _tusk_answer FROM _tusk_changed JOIN _tusk_models USING (_tusk_g) JOIN _tusk_classes USING (_tusk_g)) '
    || 'SELECT CASE WHEN _tusk_g <> '''' THEN substr(_tusk_g, 2) END AS in_group, CAST(_tusk_v AS VARCHAR) AS value, TRY_CAST(_tusk_v AS DOUBLE) AS number, class, '
    || 'avg(_tusk_answer) AS prediction, count(_tusk_answer) AS n_rows FROM _tusk_answers GROUP BY _tusk_g, _tusk_v, class ORDER BY _tusk_g, class, _tusk_answers._tusk_v');
