-- What can be written in SQL itself; the rest is in the extension.

-- Sparse features: ids >= 0 and their values, in any order; the values of repeated ids are added.
CREATE OR REPLACE TEMP MACRO sparse(indices, vals) AS {'indices': _tusk_ids(indices), 'values': vals};

-- A value with some or all fields of a model, or the text of a model, as one with all of them.
CREATE OR REPLACE TEMP MACRO _tusk_model(model) AS
    CAST(model AS STRUCT(
        task VARCHAR, features VARCHAR[], preparation VARCHAR, coef DOUBLE[], intercept DOUBLE, std_err DOUBLE[],
        classes DOUBLE[], class_names VARCHAR[], n_rows BIGINT, n_skipped BIGINT, n_features BIGINT, loss DOUBLE,
        history DOUBLE[], iterations BIGINT, converged BOOLEAN, status VARCHAR, plan VARCHAR, seconds DOUBLE,
        options VARCHAR, store VARCHAR, trials VARCHAR, payload BLOB));

-- A model whose payload is made anew of its other fields: for models that were edited, or read from JSON without it.
CREATE OR REPLACE TEMP MACRO with_payload(model) AS
    CASE WHEN model IS NOT NULL THEN struct_update(_tusk_model(model), payload := model_payload(model)) END;

-- What models by name say in a database without a registry (registry_macros.sql replaces these if there is one).
-- DuckDB takes an aggregate's result, whose type it does not know yet, for a name: typeof looks again.
CREATE OR REPLACE TEMP MACRO _tusk_no_registry(asked) AS
    error(asked || ': the database has no registry of models, tuskml.models: tuskml models create DATABASE makes one, '
          || 'in Python tuskml.registry.create(connection)');

-- By name and group in such a database, or rather the features of a model one by one.
CREATE OR REPLACE TEMP MACRO _tusk_three(asked, first) AS
    (CASE WHEN typeof(first) LIKE 'STRUCT(%'
          THEN error(asked || ' got a model and two more arguments, expected (model, features): the features are one list of '
                     || 'numbers, ' || asked || '(model, [a, b])')
          WHEN first IS NOT NULL THEN _tusk_no_registry(asked) END)::DOUBLE;

-- DuckDB takes an aggregate's result, whose type it does not know yet, for a text: it begins as a model's.
CREATE OR REPLACE TEMP MACRO _tusk_payload_of(asked, given) AS
    CASE WHEN given LIKE '{''task'': %' THEN _tusk_model(given).payload
         WHEN given IS NOT NULL THEN _tusk_no_registry(asked) END;

-- The class in the caller's own values, or the number. Of a model DuckDB reads the payload alone.
CREATE OR REPLACE TEMP MACRO predict
    (model VARCHAR, features) AS _tusk_predict(_tusk_payload_of('predict', model), features),
    (model, features) AS _tusk_predict(struct_extract(model, 'payload'), features),
    (model_name, in_group, features) AS _tusk_three('predict', model_name);

-- The place of a class in a model's list of them, by its name or its number.
CREATE OR REPLACE TEMP MACRO _tusk_place(names, given) AS
    coalesce(nullif(list_position(names, given), 0),
             nullif(list_position(names, CAST(try_cast(try_cast(given AS DOUBLE) AS BIGINT) AS VARCHAR)), 0),
             CASE WHEN names IS NOT NULL AND given IS NOT NULL
                  THEN error('predict_proba: class is ''' || given || ''', expected one of the model''s: '
                             || array_to_string(names, ', ')) END);

-- The probability of one class.
CREATE OR REPLACE TEMP MACRO _tusk_class_proba(model, features, class_name) AS
    list_extract(_tusk_predict_probas(struct_extract(model, 'payload'), features),
                 _tusk_place(struct_extract(model, 'class_names'), CAST(class_name AS VARCHAR)));

-- The class by its name. Without a list of names DuckDB would not ask for a place in it, and a model of numbers would not be refused.
CREATE OR REPLACE TEMP MACRO predict_class(model, features) AS
    list_extract(coalesce(struct_extract(model, 'class_names'), CAST([] AS VARCHAR[])),
                 CAST(_tusk_predict_class(struct_extract(model, 'payload'), features) AS BIGINT));

-- The probabilities of all classes by their names.
CREATE OR REPLACE TEMP MACRO _tusk_named(names, shares) AS CASE WHEN shares IS NOT NULL THEN map(names, shares) END;
CREATE OR REPLACE TEMP MACRO predict_probas(model, features) AS
    _tusk_named(struct_extract(model, 'class_names'),
                _tusk_predict_probas(struct_extract(model, 'payload'), features));

-- The probability of the higher of two classes, or of a class; logistic models only.
CREATE OR REPLACE TEMP MACRO predict_proba
    (model VARCHAR, features) AS _tusk_predict_proba(_tusk_payload_of('predict_proba', model), features),
    (model, features) AS _tusk_predict_proba(struct_extract(model, 'payload'), features),
    (model_name VARCHAR, in_group, features) AS _tusk_three('predict_proba', model_name),
    (model, features, class_name) AS _tusk_class_proba(model, features, class_name);

-- The raw margin, coef . features + intercept.
CREATE OR REPLACE TEMP MACRO decision
    (model VARCHAR, features) AS _tusk_decision(_tusk_payload_of('decision', model), features),
    (model, features) AS _tusk_decision(struct_extract(model, 'payload'), features),
    (model_name, in_group, features) AS _tusk_three('decision', model_name);

-- The proportions of topics in a document: a list of words, or sparse(ids, counts).
CREATE OR REPLACE TEMP MACRO predict_topics
    (model VARCHAR, tokens) AS _tusk_predict_topics(_tusk_payload_of('predict_topics', model), tokens),
    (model, tokens) AS _tusk_predict_topics(struct_extract(model, 'payload'), tokens);

-- The most probable words of each topic.
CREATE OR REPLACE TEMP MACRO model_topics(model, words := 10) AS TABLE
    SELECT unnest(_tusk_topic_words(_tusk_model(model).payload, CAST(words AS BIGINT)), recursive := true);

-- exp of minus the mean log probability of a token by the topics of the other half of its document, over some documents.
CREATE OR REPLACE TEMP MACRO _tusk_perplexity(judged) AS exp(-sum(judged[1]) / nullif(sum(judged[2]), 0));
CREATE OR REPLACE TEMP MACRO perplexity(model, tokens) AS
    _tusk_perplexity(_tusk_complete_document(struct_extract(model, 'payload'), tokens));

-- How often the best words of topics occur together in documents: 'c_v' or 'u_mass', the mean over topics.
CREATE OR REPLACE TEMP MACRO coherence(model, tokens, measure := 'c_v', words := 20) AS
    _tusk_coherence(any_value(struct_extract(model, 'payload')),
                    list(_tusk_reduce_document(struct_extract(model, 'payload'), tokens, measure, CAST(words AS BIGINT))),
                    measure, CAST(words AS BIGINT));

CREATE OR REPLACE TEMP MACRO deployed_model(model_name, in_group := '') AS _tusk_no_registry('deployed_model');
CREATE OR REPLACE TEMP MACRO register_model(
    model_name, source, in_group := '', metrics := '', recipe := NULL, data_fingerprint := '', as_version := NULL
) AS TABLE SELECT _tusk_no_registry('register_model');
CREATE OR REPLACE TEMP MACRO deploy(model_name, to_version := NULL, in_group := NULL) AS TABLE SELECT _tusk_no_registry('deploy');
CREATE OR REPLACE TEMP MACRO rollback(model_name, in_group := NULL) AS TABLE SELECT _tusk_no_registry('rollback');

-- One row per coefficient, the intercept first (feature 0): estimate, standard error, z or t, its p-value, the 95% confidence
-- interval and exp(estimate) where that is a ratio; note says why some are missing. The function returns a list of them. A store may have more coefficients than a result can hold:
-- `tuskml store export` writes them. Of a model without standard errors all terms have the same test and note, and its coefficients
-- become rows as they are read: a list of millions of them with texts would take gigabytes.
CREATE OR REPLACE TEMP MACRO model_summary(model) AS TABLE
WITH _tusk_given AS (SELECT _tusk_model(model) AS _tusk_m),
_tusk_sized AS (
    SELECT _tusk_m, _tusk_m.task = 'logistic' AND len(_tusk_m.classes) > 2 AS _tusk_several,
           _tusk_m.std_err IS NULL AND len(_tusk_m.coef) > 1024 AND _tusk_m.task NOT IN ('gbdt', 'random_forest', 'mlp', 'fm') AS _tusk_wide
    FROM _tusk_given),
_tusk_told AS (
    SELECT _tusk_wide, _tusk_several, CASE WHEN _tusk_wide AND _tusk_several THEN _tusk_m.class_names END AS _tusk_classes,
           CASE WHEN _tusk_wide THEN CASE WHEN _tusk_several THEN _tusk_m.coef ELSE [_tusk_m.intercept] || _tusk_m.coef END END AS _tusk_all,
           CASE WHEN _tusk_several THEN len(_tusk_m.coef) // len(_tusk_m.classes) ELSE len(_tusk_m.coef) + 1 END AS _tusk_each,
           CASE WHEN _tusk_wide THEN _tusk_m.features END AS _tusk_names,
           unnest(CASE WHEN _tusk_wide
                       THEN model_summary(struct_update(_tusk_m, coef := _tusk_m.coef[1:CASE WHEN _tusk_several THEN len(_tusk_m.classes)
                                                                                             ELSE 0 END]))[1:1]
                       ELSE model_summary(_tusk_m) END) AS _tusk_t
    FROM _tusk_sized),
_tusk_rows AS (
    SELECT *, unnest(CASE WHEN _tusk_wide THEN _tusk_all ELSE [_tusk_t.estimate] END) AS _tusk_value,
           unnest(CASE WHEN _tusk_wide THEN range(len(_tusk_all)) ELSE [0] END) AS _tusk_i
    FROM _tusk_told)
SELECT CASE WHEN _tusk_wide THEN CAST(_tusk_i % _tusk_each AS INTEGER) ELSE _tusk_t.feature END AS feature,
       CASE WHEN _tusk_wide THEN
           CASE WHEN _tusk_several THEN _tusk_classes[_tusk_i // _tusk_each + 1] || ': ' ELSE '' END
           || CASE WHEN _tusk_i % _tusk_each = 0 THEN 'intercept'
                   WHEN len(_tusk_names) >= _tusk_each - 1 THEN _tusk_names[_tusk_i % _tusk_each]
                   ELSE 'x' || _tusk_i % _tusk_each END
            ELSE _tusk_t.term END AS term,
       _tusk_value AS estimate, _tusk_t.std_err AS std_err, _tusk_t.test AS test, _tusk_t.statistic AS statistic,
       _tusk_t.p_value AS p_value, _tusk_t.lower AS lower, _tusk_t.upper AS upper, _tusk_t.ratio AS ratio, _tusk_t.note AS note
FROM _tusk_rows;

-- The n items with the highest predictions for a user, without those to exclude, such as the ones that the user has seen. A user
-- who was not in the training gets the items that are best for all; basis says so. The functions return lists of the rows.
CREATE OR REPLACE TEMP MACRO recommend(model, for_user, n := 10, exclude := []) AS
    _tusk_recommend(struct_extract(model, 'payload'), CAST(for_user AS DOUBLE), CAST(n AS BIGINT), CAST(exclude AS DOUBLE[]));
CREATE OR REPLACE TEMP MACRO recommend(model, for_user, n := 10, exclude := []) AS TABLE
    SELECT unnest(recommend(model, for_user, n := n, exclude := exclude), recursive := true);

-- The n items whose factors are most similar to those of an item, by their cosine.
CREATE OR REPLACE TEMP MACRO similar_items(model, to_item, n := 10, exclude := []) AS
    list_transform(_tusk_similar_items(struct_extract(model, 'payload'), CAST(to_item AS DOUBLE), CAST(n AS BIGINT),
                                       CAST(exclude AS DOUBLE[])), lambda one: struct_pack(item := one.item, score := one.score));
CREATE OR REPLACE TEMP MACRO similar_items(model, to_item, n := 10, exclude := []) AS TABLE
    SELECT unnest(similar_items(model, to_item, n := n, exclude := exclude), recursive := true);

-- How well a model fits, of one that was trained with {"fit": true}.
CREATE OR REPLACE TEMP MACRO _tusk_fit_number(options, name) AS
    CASE WHEN json_extract(options, '$.log_likelihood') IS NOT NULL THEN CAST(json_extract(options, '$.' || name) AS DOUBLE)
         ELSE error('model_fit: the model does not keep how well it fits, train it with the option "fit": true') END;
CREATE OR REPLACE TEMP MACRO model_fit(model) AS TABLE
WITH given AS (SELECT _tusk_model(model) AS m),
found AS (
    SELECT m.task AS task, _tusk_fit_number(m.options, 'weight') AS n, _tusk_fit_number(m.options, 'parameters') AS p,
           _tusk_fit_number(m.options, 'log_likelihood') AS likelihood, _tusk_fit_number(m.options, 'deviance') AS deviance,
           _tusk_fit_number(m.options, 'null_deviance') AS null_deviance,
           _tusk_fit_number(m.options, 'dispersion') AS dispersion
    FROM given WHERE m IS NOT NULL)
SELECT n, p AS parameters, likelihood AS log_likelihood, deviance, null_deviance, 2 * p - 2 * likelihood AS aic,
       p * ln(n) - 2 * likelihood AS bic, CASE WHEN null_deviance > 0 THEN 1 - deviance / null_deviance END AS r2,
       CASE WHEN task = 'linear' THEN CASE WHEN n > p THEN deviance / (n - p) END ELSE coalesce(dispersion, 1) END AS dispersion
FROM found;

-- Tests of whole terms, of a model that was trained with {"fit": true}: a column of a named row, or a feature of a list. Those of
-- Wald come first, then likelihood ratios, where the model keeps them.
CREATE OR REPLACE TEMP MACRO _tusk_terms(options) AS
    CASE WHEN json_extract(options, '$.terms') IS NOT NULL THEN CAST(json_extract(options, '$.terms') AS DOUBLE[][])
         ELSE error('model_terms: the model does not keep tests of its terms, train it with the option "fit": true '
                    || 'and at most 512 features') END;
CREATE OR REPLACE TEMP MACRO model_terms(model) AS TABLE
WITH given AS (SELECT _tusk_model(model) AS m),
tested AS (
    SELECT m, 0 AS likelihood, _tusk_terms(m.options) AS terms FROM given WHERE m IS NOT NULL
    UNION ALL SELECT m, 1, CAST(json_extract(m.options, '$.ratios') AS DOUBLE[][]) FROM given WHERE m IS NOT NULL),
one AS (SELECT m, likelihood, unnest(terms) AS t, unnest(range(len(terms))) AS i FROM tested)
SELECT coalesce(json_extract_string(m.preparation, '$.columns[' || i || '].name'), m.features[i + 1], 'x' || (i + 1)) AS term,
       CAST(t[1] AS INTEGER) AS df,
       CASE WHEN likelihood = 1 THEN 'LR' WHEN m.task IN ('linear', 'gamma') THEN 'F' ELSE 'chi2' END AS test,
       t[2] AS statistic, t[3] AS p_value
FROM one ORDER BY likelihood, i;

-- What a search tried: one row per candidate and set of held-out rows, and one with fold NULL for the mean of them.
CREATE OR REPLACE TEMP MACRO model_trials(model) AS TABLE
WITH given AS (SELECT _tusk_model(model) AS m),
kept AS (
    SELECT CASE WHEN json_exists(m.trials, '$.trials') THEN m.trials
                ELSE error('model_trials: the model is of no search, train it with a list of values for an option') END AS trials
    FROM given WHERE m IS NOT NULL),
tried AS (
    SELECT unnest(json_extract(trials, '$.trials[*]')) AS t, unnest(range(CAST(json_array_length(trials, '$.trials') AS BIGINT))) AS i,
           CAST(json_extract(trials, '$.chosen') AS BIGINT) AS chosen
    FROM kept),
folds AS (
    SELECT t, i, unnest(json_extract(t, '$.folds[*]')) AS f, unnest(range(CAST(json_array_length(t, '$.folds') AS BIGINT))) AS fold
    FROM tried)
SELECT configuration, fold, iterations, metric, std_err, seconds, status, n_rows AS rows, chosen FROM (
    SELECT i, CAST(json_extract(t, '$.configuration') AS VARCHAR) AS configuration, NULL AS fold, NULL AS iterations,
           CAST(json_extract(t, '$.metric') AS DOUBLE) AS metric, CAST(json_extract(t, '$.std_err') AS DOUBLE) AS std_err,
           list_sum(CAST(json_extract(t, '$.folds[*].seconds') AS DOUBLE[])) AS seconds, NULL AS status,
           CAST(json_extract(t, '$.rows') AS DOUBLE) AS n_rows, i = chosen AS chosen
    FROM tried
    UNION ALL
    SELECT i, CAST(json_extract(t, '$.configuration') AS VARCHAR), fold, CAST(json_extract(f, '$.iterations') AS BIGINT),
           CAST(json_extract(f, '$.metric') AS DOUBLE), NULL, CAST(json_extract(f, '$.seconds') AS DOUBLE),
           json_extract_string(f, '$.status'), CAST(json_extract(t, '$.rows') AS DOUBLE), NULL
    FROM folds)
ORDER BY i, fold NULLS FIRST;

-- A path of penalties: one row per penalty, from the largest one on. features has the places of the weights that are not 0.
CREATE OR REPLACE TEMP MACRO model_path(model) AS TABLE
WITH given AS (SELECT _tusk_model(model) AS m),
kept AS (
    SELECT CASE WHEN json_exists(m.trials, '$.path') THEN m.trials
                ELSE error('model_path: the model is of no path, train it by lasso, elastic_net or sparse_logistic '
                           || 'without the option "lambda"') END AS trials
    FROM given WHERE m IS NOT NULL),
steps AS (
    SELECT unnest(json_extract(trials, '$.path[*]')) AS t, unnest(range(CAST(json_array_length(trials, '$.path') AS BIGINT))) AS i,
           CAST(json_extract(trials, '$.chosen') AS BIGINT) AS chosen
    FROM kept)
SELECT i + 1 AS step, CAST(json_extract(t, '$.lambda') AS DOUBLE) AS penalty, CAST(json_extract(t, '$.loss') AS DOUBLE) AS loss,
       CAST(json_extract(t, '$.gap') AS DOUBLE) AS gap, CAST(json_extract(t, '$.held_out') AS DOUBLE) AS held_out,
       CAST(json_extract(t, '$.held_out_error') AS DOUBLE) AS held_out_error,
       CAST(json_extract(t, '$.intercept') AS DOUBLE) AS intercept, CAST(json_array_length(t, '$.feature') AS BIGINT) AS n_weights,
       CAST(json_extract(t, '$.feature') AS BIGINT[]) AS features, CAST(json_extract(t, '$.weight') AS DOUBLE[]) AS weights,
       i = chosen AS chosen
FROM steps ORDER BY i;

-- A label, and features, as SQL writes them: a list of numbers, a row with names, or one expression.
CREATE OR REPLACE TEMP MACRO _tusk_row_of(features) AS
    '{' || array_to_string(list_transform(json_keys(features), lambda name:
        '''' || replace(name, '''', '''''') || ''': ('
        || json_extract_string(features, '/' || replace(replace(name, '~', '~0'), '/', '~1')) || chr(10) || ')'
    ), ', ') || '}';
CREATE OR REPLACE TEMP MACRO _tusk_label_sql(label) AS '(' || label || chr(10) || ')';
CREATE OR REPLACE TEMP MACRO _tusk_features_sql(features) AS
    CASE WHEN json_type(to_json(features)) = 'ARRAY' THEN '[' || array_to_string(to_json(features)->>'$[*]', ', ') || chr(10) || ']'
         WHEN json_type(to_json(features)) = 'OBJECT' THEN _tusk_row_of(to_json(features))
         ELSE '(' || (to_json(features)->>'$') || chr(10) || ')' END;

-- Options that name the features of a list of columns, unless options name them.
CREATE OR REPLACE TEMP MACRO _tusk_listed_names(names, options) AS
    CASE WHEN len(list_distinct(names)) < len(names) OR list_bool_or(list_transform(names, lambda n: NOT regexp_full_match(n, '[A-Za-z_]\w*')))
              OR NOT regexp_full_match(options, '\s*(\{.*)?', 's') OR contains(options, '"feature_names"') THEN options
         ELSE '{"feature_names": ' || to_json(names) || CASE WHEN regexp_full_match(options, '\s*(\{\s*\}\s*)?') THEN '}'
              ELSE ', ' || regexp_replace(options, '^\s*\{', '') END END;
CREATE OR REPLACE TEMP MACRO _tusk_with_names(features, options) AS
    CASE WHEN json_type(to_json(features)) = 'ARRAY' AND len(features::VARCHAR) + len(options) < 30000
         THEN _tusk_listed_names(to_json(features)->>'$[*]', options) ELSE options END;

-- The keys of groups as a JSON list, of one text or a list of them.
CREATE OR REPLACE TEMP MACRO _tusk_keys(group_by) AS
    CASE WHEN json_type(to_json(group_by)) = 'ARRAY' THEN to_json(group_by)::VARCHAR ELSE json_array(group_by)::VARCHAR END;
CREATE OR REPLACE TEMP MACRO _tusk_keys_sql(keys) AS
    array_to_string(list_transform(CAST(keys AS JSON)->>'$[*]', lambda key: key || chr(10) || ', '), '');

-- A training on a table, a query or files ('''trips.parquet''') whose label and features are SQL as text. The features are
-- a list of columns, a STRUCT of names with expressions, or one expression that is an array, a row or sparse(...). It
-- returns one row, the model's fields, or with group_by a row per group, its keys and its model, and can run no statement
-- but one SELECT. Where the options allow it, _tusk_rounds writes a statement that reads some row groups, or trains on a
-- cluster; of a list whose columns are not all numbers, one by name.
CREATE OR REPLACE TEMP MACRO train(source, task, label, features, options := '', weight := '', "offset" := '', group_by := []) AS TABLE
FROM query(CASE WHEN _tusk_keys(group_by) = '[]' THEN 'SELECT unnest(tuskml_trained) FROM ('
                ELSE 'SELECT * RENAME (tuskml_trained AS model) FROM (' END || coalesce(
    _tusk_rounds(source, task, _tusk_label_sql(label), _tusk_features_sql(features), options, weight, "offset",
                 _tusk_with_names(features, options), _tusk_keys(group_by)),
    'SELECT ' || _tusk_keys_sql(_tusk_keys(group_by)) || 'train_model(''' || replace(task, '''', '''''') || ''', ' || _tusk_label_sql(label) || ', '
    || _tusk_features_sql(features) || ', ''' || replace(_tusk_with_names(features, options), '''', '''''') || ''''
    || CASE WHEN weight <> '' OR "offset" <> '' THEN ', (' || coalesce(nullif(weight, ''), '1') || chr(10) || ')' ELSE '' END
    || CASE WHEN "offset" <> '' THEN ', (' || "offset" || chr(10) || ')' ELSE '' END
    || ') AS tuskml_trained FROM ('
    || CASE WHEN regexp_matches(source, '^[\s(]*(SELECT|WITH|FROM|VALUES)\b', 'i') THEN '' ELSE 'FROM ' END || source
    || chr(10) || ')' || CASE WHEN _tusk_keys(group_by) = '[]' THEN '' ELSE ' GROUP BY ALL' END) || ')');

-- The numbers of a model of trees (udas/scalars/models/trees.c has their order), or an error for another model.
CREATE OR REPLACE TEMP MACRO _tusk_trees_of(asked, model) AS
    CASE WHEN model.task IN ('gbdt', 'random_forest') AND model.n_features NOT BETWEEN 0 AND 16777216
         THEN error(asked || ': the model has ' || model.n_features || ' features, expected at most 16777216')
         WHEN model.task IN ('gbdt', 'random_forest') THEN coalesce(model.coef, _tusk_tree_numbers(model.payload))
         WHEN model IS NOT NULL THEN error(asked || ': the model is ''' || model.task || ''', expected a model of trees') END;

-- The names of the levels of a category that a model has as numbers, from 0 on, or NULL for another feature.
CREATE OR REPLACE TEMP MACRO _tusk_level_names(preparation, feature) AS
    list_filter(from_json(json_extract(preparation, '$.columns'), '[{"name": "VARCHAR", "kind": "VARCHAR", "levels": ["VARCHAR"], "missing": "BOOLEAN"}]'),
                lambda c: c.kind = 'levels' AND c.name = feature)[1];
-- The levels that a split sends left: the set that begins so far before the end of a model's numbers.
CREATE OR REPLACE TEMP MACRO _tusk_levels_left(numbers, from_end) AS
    list_filter(range(32 * CAST(least(numbers[len(numbers) - CAST(from_end AS BIGINT) + 1], len(numbers)) AS BIGINT)),
                lambda b: (CAST(numbers[len(numbers) - CAST(from_end AS BIGINT) + 2 + b // 32] AS BIGINT) >> (b % 32)) & 1 = 1);

-- One row a node: splits send rows of up to `threshold`, or of the levels in `levels`, to the left, and leaves add `value` to the margin.
-- asked: the function that was called, which the error for another model names.
CREATE OR REPLACE TEMP MACRO _tusk_nodes_of(asked, model) AS TABLE
WITH given AS (SELECT _tusk_trees_of(asked, _tusk_model(model)) AS numbers, _tusk_model(model).features AS names, _tusk_model(model).class_names AS class_names,
                      _tusk_model(model).preparation AS preparation),
items AS MATERIALIZED (SELECT unnest(numbers) AS item, generate_subscripts(numbers, 1) AS i FROM given),
trees AS (
    SELECT max(item) FILTER (i = 2)::BIGINT AS n, 3 + max(item) FILTER (i = 3)::BIGINT AS head,
           greatest(max(item) FILTER (i = 3)::BIGINT, 1) AS outputs FROM items WHERE i <= 3),
sizes AS (
    SELECT i - head AS tree, greatest(item, 0) AS size,
           sum(greatest(item, 0)) OVER (ORDER BY i ASC) - greatest(item, 0) AS before
    FROM items, trees WHERE i BETWEEN head + 1 AND head + n),
nodes AS (
    SELECT (i - head - 1 - n) // 6 AS place,
           max(item) FILTER ((i - head - 1 - n) % 6 = 0) AS feature, max(item) FILTER ((i - head - 1 - n) % 6 = 1) AS value,
           max(item) FILTER ((i - head - 1 - n) % 6 = 2) AS right_child, max(item) FILTER ((i - head - 1 - n) % 6 = 3) AS gain,
           max(item) FILTER ((i - head - 1 - n) % 6 = 4) AS n_rows,
           max(item) FILTER ((i - head - 1 - n) % 6 = 5) AS missing
    FROM items, trees WHERE i > head + n AND i <= head + n + 6 * (SELECT sum(size) FROM sizes) GROUP BY place),
places AS (
    SELECT tree, before, unnest(range(before::BIGINT, least(before + size, (SELECT count(*) FROM nodes))::BIGINT)) AS place
    FROM sizes)
SELECT tree::BIGINT AS tree, (place - before)::BIGINT AS node,
       CASE WHEN feature >= 0
            THEN coalesce((SELECT names FROM given)[feature::BIGINT + 1], 'x' || (feature::BIGINT + 1)) END AS feature,
       CASE WHEN feature >= 0 AND missing < 2 THEN value END AS threshold,
       CASE WHEN feature >= 0 THEN (place - before + 1)::BIGINT END AS left_child,
       CASE WHEN feature >= 0 THEN right_child::BIGINT END AS right_child,
       CASE WHEN feature < 0 THEN value END AS value,
       CASE WHEN feature >= 0 THEN gain END AS gain, n_rows::BIGINT AS n_rows,
       CASE WHEN feature >= 0 THEN missing = 1 END AS missing_left,
       CASE WHEN outputs > 1 THEN (SELECT class_names FROM given)[(tree - 1) % outputs + 1] END AS class,
       CASE WHEN missing = 2
            THEN list_transform(chosen, lambda l:
                 coalesce(names.levels[l + 1], CASE WHEN l = len(names.levels) THEN 'missing' END, CAST(l AS VARCHAR))) END AS levels
FROM trees CROSS JOIN (
         SELECT nodes.*, CASE WHEN missing = 2 THEN _tusk_level_names(preparation, given.names[feature::BIGINT + 1]) END AS names,
                CASE WHEN missing = 2 THEN _tusk_levels_left(numbers, value) END AS chosen FROM nodes, given) AS nodes
     JOIN places USING (place);
CREATE OR REPLACE TEMP MACRO tree_dump(model) AS TABLE FROM _tusk_nodes_of('tree_dump', model) ORDER BY tree, node;

-- What the splits by each feature gained in all, and how many they are; the most important first.
CREATE OR REPLACE TEMP MACRO feature_importance(model) AS TABLE
WITH given AS (SELECT _tusk_model(model) AS m),
known AS (
    SELECT coalesce(m.features[place], 'x' || place) AS feature, place
    FROM (SELECT m, unnest(range(1, m.n_features + 1)) AS place FROM given)),
used AS (SELECT feature, sum(gain) AS gain, count(*) AS splits FROM _tusk_nodes_of('feature_importance', model) WHERE feature IS NOT NULL GROUP BY feature)
SELECT feature, coalesce(gain, 0) AS gain, coalesce(splits, 0) AS splits
FROM known LEFT JOIN used USING (feature) ORDER BY gain DESC, place;

-- An explanation (udas/scalars/explaining/contributions.h) as rows: the base value first, then the features. The list has
-- the number of margins, a value for each feature, and for each margin its base value and contributions.
CREATE OR REPLACE TEMP MACRO _tusk_explained(told, width, names, class_names) AS
    list_transform(range(CAST(told[1] AS BIGINT) * (width + 1)), lambda i: {
        'feature': CASE WHEN i % (width + 1) = 0 THEN 'base value' ELSE coalesce(names[i % (width + 1)], 'x' || i % (width + 1)) END,
        'value': CASE WHEN i % (width + 1) > 0 THEN told[1 + i % (width + 1)] END,
        'contribution': told[2 + width + i],
        'class': CASE WHEN told[1] > 1 THEN class_names[1 + i // (width + 1)] END});

-- What each feature of a row adds to the margin: with the base value they add up to it.
CREATE OR REPLACE TEMP MACRO explain_prediction(model, features) AS TABLE
SELECT unnest(_tusk_explained(told, CAST((len(told) - 1 - told[1]) / (told[1] + 1) AS BIGINT), names, class_names),
              recursive := true)
FROM (SELECT _tusk_explain_prediction(struct_extract(model, 'payload'), features) AS told,
             struct_extract(model, 'features') AS names, struct_extract(model, 'class_names') AS class_names);

-- The versions that partition_model kept under names, each a row; error says why one cannot be read.
CREATE OR REPLACE TEMP MACRO partitionings() AS TABLE
WITH told AS (SELECT (partition_model([]::INTEGER[], '{"list": true}')).explanation AS list)
SELECT unnest(from_json(list, '[{"partitioning": "VARCHAR", "version": "BIGINT", "created": "TIMESTAMPTZ", "size": "BIGINT",
    "features": "BIGINT", "keys": "BIGINT", "others": "VARCHAR", "rows_seen": "BIGINT", "requests_before": "DOUBLE",
    "requests_after": "DOUBLE", "error": "VARCHAR"}]'), recursive := true)
FROM told;

-- Features as SQL writes them, one by one: their expressions, and their names, which a single array has not.
CREATE OR REPLACE TEMP MACRO _tusk_expressions(features) AS
    CASE json_type(to_json(features)) WHEN 'ARRAY' THEN to_json(features)->>'$[*]'
         WHEN 'OBJECT' THEN list_transform(json_keys(to_json(features)), lambda name: json_extract_string(
              to_json(features), '/' || replace(replace(name, '~', '~0'), '/', '~1')))
         ELSE [to_json(features)->>'$'] END;
CREATE OR REPLACE TEMP MACRO _tusk_expression_names(features) AS
    CASE json_type(to_json(features)) WHEN 'ARRAY' THEN to_json(features)->>'$[*]' WHEN 'OBJECT' THEN json_keys(to_json(features))
         ELSE []::VARCHAR[] END;
CREATE OR REPLACE TEMP MACRO _tusk_quoted(name) AS '''' || replace(name, '''', '''''') || '''';
-- The same as columns c1, c2, ..., the text `each` for every one of them, in which % is its number.
CREATE OR REPLACE TEMP MACRO _tusk_each(features, each) AS
    array_to_string(list_transform(range(1, len(_tusk_expressions(features)) + 1), lambda i: replace(each, '%', CAST(i AS VARCHAR))), ', ');
-- A prediction from these columns: of a model of lists, or of rows with names. % stands for the features.
CREATE OR REPLACE TEMP MACRO _tusk_answer_sql(features, call) AS
    CASE WHEN len(_tusk_expression_names(features)) = 0 THEN replace(call, '%', 'c1')
         ELSE 'CASE WHEN m.of_lists THEN ' || replace(call, '%', '[' || _tusk_each(features, 'TRY_CAST(c% AS DOUBLE)') || ']') || ' ELSE '
              || replace(call, '%', '{' || array_to_string(list_transform(_tusk_expression_names(features),
                                        lambda name, i: _tusk_quoted(name) || ': c' || i), ', ') || '}') || ' END' END;
-- The rows of a source, `given`, and the first model of each group, `models`. Groups have texts as keys, '' where there are none.
CREATE OR REPLACE TEMP MACRO _tusk_given_sql(source, model, label, features, group_by) AS
    'WITH given AS (SELECT coalesce(''='' || CAST((' || coalesce(nullif(group_by, ''), 'NULL') || chr(10) || ') AS VARCHAR), '''') AS g, ('
    || model || chr(10) || ') AS model_given, (' || label || chr(10) || ') AS y, '
    || array_to_string(list_transform(_tusk_expressions(features), lambda e, i: '(' || e || chr(10) || ') AS c' || i), ', ') || ' FROM ('
    || CASE WHEN regexp_matches(source, '^[\s(]*(SELECT|WITH|FROM|VALUES)\b', 'i') THEN '' ELSE 'FROM ' END || source || chr(10) || ')), '
    || 'models AS MATERIALIZED (SELECT g, any_value(struct_pack(payload := model_given.payload, class_names := model_given.class_names, '
    || 'features := model_given.features, of_lists := model_given.preparation IS NULL, probable := model_given.class_names IS NOT NULL '
    || 'AND model_given.task <> ''svm'' AND coalesce(json_extract_string(model_given.options, ''$.response''), ''logistic'') = ''logistic'')) '
    || 'AS m FROM given WHERE model_given IS NOT NULL GROUP BY g), ';
-- A label as a class of a model: booleans are 0 and 1, unless they are its names.
CREATE OR REPLACE TEMP MACRO _tusk_class_of(names, label) AS
    CASE WHEN list_contains(names, label) THEN label WHEN label = 'true' THEN '1' WHEN label = 'false' THEN '0'
         ELSE regexp_replace(label, '\.0+$', '') END;
-- The loss of a row: by the probability of its class, by whether the class is right, or by the squared error.
CREATE OR REPLACE TEMP MACRO _tusk_row_loss(m, answer, label) AS
    CASE WHEN m.probable THEN -ln(CASE WHEN answer < 1e-15 THEN 1e-15 ELSE answer END)
         WHEN m.class_names IS NOT NULL THEN 1 - answer ELSE (answer - TRY_CAST(label AS DOUBLE)) ** 2 END;
CREATE OR REPLACE TEMP MACRO _tusk_loss_sql(features) AS
    '_tusk_row_loss(m, CASE WHEN m.probable THEN ' || _tusk_answer_sql(features, 'predict_proba(m, %, _tusk_class_of(m.class_names, CAST(y AS VARCHAR)))')
    || ' WHEN m.class_names IS NOT NULL THEN CAST(CAST(' || _tusk_answer_sql(features, 'predict_class(m, %)')
    || ' = _tusk_class_of(m.class_names, CAST(y AS VARCHAR)) AS INTEGER) AS DOUBLE) ELSE ' || _tusk_answer_sql(features, 'predict(m, %)') || ' END, y)';
-- The columns after feature j took its values from the row d.
CREATE OR REPLACE TEMP MACRO _tusk_permuted_sql(features) AS
    CASE WHEN len(_tusk_expression_names(features)) = 0
         THEN 'list_transform(r.c1, lambda v, p: CASE WHEN p = j THEN d.c1[p] ELSE v END) AS c1'
         ELSE _tusk_each(features, 'CASE WHEN j = % THEN d.c% ELSE r.c% END AS c%') END;

-- How much the mean loss of rows rises if the values of one feature are shuffled among them (L. Breiman, Random forests, Machine
-- Learning 45, 2001), per group. All arguments but the last two are SQL as text, as those of train. Rows are numbered in
-- the order of their values, so that the order in which they are read changes nothing.
CREATE OR REPLACE TEMP MACRO permutation_importance(source, model, label, features, group_by := '', repeats := 5, seed := 0) AS TABLE
FROM query(_tusk_given_sql(source, model, label, features, group_by)
    || 'rows AS MATERIALIZED (SELECT row_number() OVER (PARTITION BY g ORDER BY y ASC, ' || _tusk_each(features, 'c% ASC') || ') AS i, * '
    || 'FROM (SELECT g, y, ' || _tusk_each(features, 'c%') || ', ' || _tusk_loss_sql(features) || ' AS loss FROM given JOIN models USING (g) '
    || 'WHERE y IS NOT NULL) WHERE loss IS NOT NULL), '
    || 'donors AS (SELECT g, i, k, row_number() OVER (PARTITION BY g, k ORDER BY md5(concat_ws('':'', ' || CAST(seed AS BIGINT) || ', k, i)) ASC, i ASC) AS place '
    || 'FROM rows, range(' || CAST(repeats AS BIGINT) || ') AS t (k)), '
    || 'places AS (SELECT g, unnest(range(1, 1 + ' || CASE WHEN len(_tusk_expression_names(features)) = 0 THEN 'max(len(c1))'
                                                       ELSE CAST(len(_tusk_expressions(features)) AS VARCHAR) END || ')) AS j FROM rows GROUP BY g), '
    || 'changed AS (SELECT r.g, r.y, j, k, ' || _tusk_permuted_sql(features) || ' FROM rows AS r JOIN donors AS o ON o.g = r.g AND o.i = r.i '
    || 'JOIN rows AS d ON d.g = o.g AND d.i = o.place JOIN places ON places.g = r.g), '
    || 'losses AS (SELECT g, j, k, avg(' || _tusk_loss_sql(features) || ') AS loss FROM changed JOIN models USING (g) GROUP BY g, j, k), '
    || 'plain AS (SELECT g, avg(loss) AS loss FROM rows GROUP BY g) '
    || 'SELECT CASE WHEN g <> '''' THEN substr(g, 2) END AS in_group, '
    || CASE WHEN len(_tusk_expression_names(features)) = 0 THEN 'coalesce(any_value(m.features)[j], ''x'' || j)'
            ELSE '[' || array_to_string(list_transform(_tusk_expression_names(features), lambda name: _tusk_quoted(name)), ', ') || '][j]' END
    || ' AS feature, avg(losses.loss) - any_value(plain.loss) AS importance, stddev_pop(losses.loss) AS std_dev, any_value(plain.loss) AS loss '
    || 'FROM losses JOIN plain USING (g) JOIN models USING (g) GROUP BY g, j ORDER BY g, importance DESC, j');

-- Where a feature is among the columns, or in a single array.
CREATE OR REPLACE TEMP MACRO _tusk_place_sql(features, feature) AS
    CASE WHEN len(_tusk_expression_names(features)) = 0
         THEN 'coalesce(list_position(m.features, ' || _tusk_quoted(feature) || '), try_cast(regexp_extract(' || _tusk_quoted(feature)
              || ', ''^x([1-9]\d*)$'', 1) AS BIGINT), error(''partial_dependence: feature is '' || ' || _tusk_quoted(_tusk_quoted(feature))
              || ' || '', expected a name of the model''''s features, or x1, x2, ...''))'
         ELSE CAST(coalesce(nullif(list_position(_tusk_expression_names(features), feature), 0),
              error('partial_dependence: feature is ' || _tusk_quoted(feature) || ', expected one of '
                    || array_to_string(_tusk_expression_names(features), ', '))) AS VARCHAR) END;
-- How many of the wanted shares, 5 % to 95 % of the rows, are reached by so many rows.
CREATE OR REPLACE TEMP MACRO _tusk_shares_reached(rows, total, points) AS
    CASE WHEN 20 * rows < total THEN 0 ELSE least(greatest(points - 1, 1) * (20 * rows - total) // (18 * total) + 1, points) END;
-- What a model says on average of rows where one feature has the same value in all of them (J. Friedman, Greedy function
-- approximation, Annals of Statistics 29, 2001, section 8.2): all values that occur, or of many numbers those at equal shares of the
-- rows from 5 % to 95 %, and of many texts the most frequent ones.
CREATE OR REPLACE TEMP MACRO partial_dependence(source, model, features, feature, group_by := '', points := 50) AS TABLE
FROM query(_tusk_given_sql(source, model, 'NULL', features, group_by)
    || 'rows AS MATERIALIZED (SELECT given.*, ' || _tusk_place_sql(features, feature) || ' AS place FROM given JOIN models USING (g)), '
    || 'counted AS (SELECT g, v, count(*) AS n, typeof(v) SIMILAR TO ''VARCHAR|BOOLEAN|ENUM.*'' AS by_count FROM (SELECT g, '
    || CASE WHEN len(_tusk_expression_names(features)) = 0 THEN 'c1[place]' ELSE 'c' || _tusk_place_sql(features, feature) END
    || ' AS v FROM rows) WHERE v IS NOT NULL AND lower(CAST(v AS VARCHAR)) <> ''nan'' GROUP BY g, v), '
    || 'ranked AS (SELECT *, sum(n) OVER (PARTITION BY g ORDER BY v ASC) AS up, sum(n) OVER (PARTITION BY g) AS total, '
    || 'count(*) OVER (PARTITION BY g) AS levels, row_number() OVER (PARTITION BY g ORDER BY n DESC, v ASC) AS rank FROM counted), '
    || 'grid AS (SELECT g, v FROM ranked WHERE levels <= ' || points || ' OR CASE WHEN by_count THEN rank <= ' || points
    || ' ELSE _tusk_shares_reached(up, total, ' || points || ') > _tusk_shares_reached(up - n, total, ' || points || ') END), '
    || 'classes AS (SELECT g, unnest(CASE WHEN m.probable THEN m.class_names[greatest(1, 4 - len(m.class_names)):] ELSE [NULL] END) AS class FROM models), '
    || 'changed AS (SELECT g, v, '
    || CASE WHEN len(_tusk_expression_names(features)) = 0 THEN 'list_transform(c1, lambda e, p: CASE WHEN p = place THEN v ELSE e END) AS c1'
            ELSE array_to_string(list_transform(range(1, len(_tusk_expressions(features)) + 1), lambda i:
                 CASE WHEN CAST(i AS VARCHAR) = _tusk_place_sql(features, feature) THEN 'v' ELSE 'c' || i END || ' AS c' || i), ', ') END
    || ' FROM rows JOIN grid USING (g)), '
    || 'answers AS (SELECT g, v, class, CASE WHEN class IS NOT NULL THEN ' || _tusk_answer_sql(features, 'predict_proba(m, %, class)')
    || ' WHEN m.class_names IS NOT NULL THEN ' || _tusk_answer_sql(features, 'decision(m, %)') || ' ELSE '
    || _tusk_answer_sql(features, 'predict(m, %)') || ' END AS answer FROM changed JOIN models USING (g) JOIN classes USING (g)) '
    || 'SELECT CASE WHEN g <> '''' THEN substr(g, 2) END AS in_group, CAST(v AS VARCHAR) AS value, TRY_CAST(v AS DOUBLE) AS number, class, '
    || 'avg(answer) AS prediction, count(answer) AS n_rows FROM answers GROUP BY g, v, class ORDER BY g, class, answers.v');
