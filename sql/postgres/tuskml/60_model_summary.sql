-- model_summary runs with its caller's rights, who thus needs those to its helpers, which are left to PUBLIC.

CREATE FUNCTION tuskml._tuskml_divide(float8, float8) RETURNS float8
AS 'MODULE_PATHNAME', 'tuskml_divide' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION tuskml._tuskml_refuse_stored(store text) RETURNS boolean
AS 'MODULE_PATHNAME', 'tuskml_refuse_stored' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

-- Standard errors from an estimate to the end of its 95% confidence interval; infinite freedom is the normal distribution.
CREATE FUNCTION tuskml._tuskml_interval(freedom float8) RETURNS float8
AS 'MODULE_PATHNAME', 'tuskml_interval' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

-- estimate + errors * std_err, NULL where it is undefined.
CREATE FUNCTION tuskml._tuskml_bound(estimate float8, errors float8, std_err float8) RETURNS float8
AS 'MODULE_PATHNAME', 'tuskml_bound' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

-- exp(estimate) where it is an odds ratio or a ratio of means, else NULL.
CREATE FUNCTION tuskml._tuskml_ratio(task text, estimate float8) RETURNS float8
AS 'MODULE_PATHNAME', 'tuskml_ratio' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

-- Why a term has no standard error; errors: how many terms have one.
CREATE FUNCTION tuskml._tuskml_note(task text, options text, status text, store text, errors bigint, feature bigint) RETURNS text
AS 'MODULE_PATHNAME', 'tuskml_note' LANGUAGE C IMMUTABLE PARALLEL SAFE;

-- Whether a feature is a level of an absorbed category, which summaries leave out.
CREATE FUNCTION tuskml._tuskml_is_absorbed(options text, feature bigint) RETURNS boolean
AS 'MODULE_PATHNAME', 'tuskml_is_absorbed' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

-- The two-sided p-value of Student's t; infinite freedom is the normal distribution.
CREATE FUNCTION tuskml._tuskml_p_value(statistic float8, freedom float8) RETURNS float8
AS 'MODULE_PATHNAME', 'tuskml_p_value' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

-- Whether a model was fitted: one of a group that could not be fitted has no rows of fit, trials
-- or path, even if its training requested them.
CREATE FUNCTION tuskml._tuskml_was_fitted(status text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$ SELECT coalesce(status NOT IN ('invalid rows', 'one class', 'out of range'), true) $$;

-- The Cholesky factor of the covariance of a model's coefficients, the rows of its lower triangle one after another; NULL for a
-- group that could not be fitted.
CREATE FUNCTION tuskml._tuskml_root(asked text, model tuskml_model) RETURNS float8[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    kept boolean := coalesce((model).options::jsonb->>'intervals' = 'covariance', false);
BEGIN
    IF NOT kept AND (model).task IS NOT NULL AND tuskml._tuskml_was_fitted((model).status) THEN
        RAISE EXCEPTION '%: the model does not keep the covariance of its coefficients, train it with the option "intervals": "covariance"', asked
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN CASE WHEN kept THEN (model).spread END;
END
$$;

-- The covariance of the coefficients, row by row, from such rows of the factor.
CREATE FUNCTION tuskml._tuskml_covariances(root float8[]) RETURNS float8[]
AS 'MODULE_PATHNAME', 'tuskml_covariances' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

-- The number of terms with standard errors that model_summary shows: absorbed levels are none.
CREATE FUNCTION tuskml._tuskml_shown(model tuskml_model) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$ SELECT cardinality((model).std_err) - coalesce(((model).options::jsonb->'absorbed_features'->>1)::integer, 0) $$;

-- The covariances of the coefficients of a model that was trained with {"intervals": "covariance"}: all pairs of the terms of
-- model_summary that have a standard error, of several classes without the reference.
CREATE FUNCTION tuskml.model_covariance(model tuskml_model)
RETURNS TABLE (term text, with_term text, covariance float8)
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    items float8[] := tuskml._tuskml_covariances(tuskml._tuskml_root('model_covariance', model));
    size integer := round(sqrt(cardinality(items)));
    first integer := tuskml._tuskml_shown(model) - size;
BEGIN
    RETURN QUERY
    WITH terms AS MATERIALIZED (
        SELECT s.term, s.at - first AS i
        FROM (SELECT t.*, row_number() OVER () AS at FROM tuskml.model_summary(model) AS t WHERE size > 0) AS s
        WHERE s.at > first AND s.std_err IS NOT NULL)
    SELECT a.term, b.term, items[(a.i - 1) * size + b.i] FROM terms AS a, terms AS b ORDER BY a.i, b.i;
END
$$;

-- A weighted sum of the coefficients of such a model, tested as model_summary tests a coefficient: as the intercept of a model
-- without features. With the factor L of the covariance its variance w' L L' w is a sum of squares.
CREATE FUNCTION tuskml.model_contrast(model tuskml_model, weights jsonb)
RETURNS TABLE (estimate float8, std_err float8, test text, statistic float8, p_value float8, lower float8, upper float8, ratio float8)
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    root float8[] := tuskml._tuskml_root('model_contrast', model);
    size integer := round((sqrt(8 * cardinality(root) + 1) - 1) / 2);
    first integer := tuskml._tuskml_shown(model) - size;
    terms text[];
    estimates float8[];
    rows integer[];
    w float8[];
    wrong text;
    sum_of float8;
    error float8;
BEGIN
    IF weights IS NULL OR jsonb_typeof(weights) <> 'object' THEN
        RAISE EXCEPTION 'model_contrast: weights is %, expected numbers by the terms of model_summary', coalesce(weights::text, 'NULL')
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF root IS NULL THEN
        RETURN;
    END IF;
    SELECT array_agg(s.term ORDER BY s.at), array_agg(s.estimate ORDER BY s.at), array_agg(s.at - first ORDER BY s.at),
           array_agg(CASE WHEN jsonb_typeof(weights->s.term) = 'number' THEN (weights->>s.term)::float8 END ORDER BY s.at)
    INTO terms, estimates, rows, w
    FROM (SELECT t.*, row_number() OVER () AS at FROM tuskml.model_summary(model) AS t) AS s
    WHERE s.at > first AND s.std_err IS NOT NULL;
    SELECT min(k) INTO wrong FROM jsonb_object_keys(weights) AS k
    WHERE NOT EXISTS (SELECT FROM unnest(terms, w) AS t (term, weight) WHERE t.term = k AND t.weight IS NOT NULL);
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'model_contrast: weights has ''%'', expected numbers by terms that have a standard error: ''%''', wrong, array_to_string(terms[1:12], ''', ''')
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    sum_of := (SELECT coalesce(sum(t.estimate * t.weight), 0) FROM unnest(estimates, w) AS t (estimate, weight));
    error := sqrt((
        SELECT sum(power((SELECT coalesce(sum(t.weight * root[t.i * (t.i - 1) / 2 + j]), 0)
                          FROM unnest(rows, w) AS t (i, weight) WHERE t.i >= j AND t.weight IS NOT NULL), 2))
        FROM generate_series(1, size) AS j));
    RETURN QUERY SELECT s.estimate, s.std_err, s.test, s.statistic, s.p_value, s.lower, s.upper, s.ratio
    FROM tuskml.model_summary(jsonb_populate_record(model, jsonb_build_object(
        'coef', '[]'::jsonb, 'features', NULL, 'classes', NULL, 'class_names', NULL, 'intercept', sum_of,
        'std_err', jsonb_build_array(error), 'n_rows', (model).n_rows - cardinality(terms) + 1))) AS s;
END
$$;

-- Goodness of fit of a model that was trained with {"fit": true}.
CREATE FUNCTION tuskml.model_fit(model tuskml_model)
RETURNS TABLE (n float8, parameters float8, log_likelihood float8, deviance float8, null_deviance float8, aic float8,
               bic float8, r2 float8, dispersion float8)
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    kept jsonb := (model).options::jsonb;
BEGIN
    IF (model).task IS NULL OR (kept->>'deviance' IS NULL AND NOT tuskml._tuskml_was_fitted((model).status)) THEN
        RETURN;
    END IF;
    n := kept->>'weight';
    parameters := kept->>'parameters';
    log_likelihood := kept->>'log_likelihood';
    IF kept->>'deviance' IS NULL THEN
        RAISE EXCEPTION 'model_fit: the model does not keep how well it fits, train it with the option "fit": true'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    deviance := kept->>'deviance';
    null_deviance := kept->>'null_deviance';
    aic := 2 * parameters - 2 * log_likelihood;
    bic := parameters * ln(n) - 2 * log_likelihood;
    r2 := CASE WHEN null_deviance > 0 THEN 1 - deviance / null_deviance END;
    dispersion := CASE WHEN (model).task <> 'linear' THEN coalesce((kept->>'dispersion')::float8, 1)
                       WHEN n > parameters - 1 THEN deviance / (n - parameters + 1) END;
    RETURN NEXT;
END
$$;

-- Tests of whole terms of a model that was trained with {"fit": true}: a column of a named row, or
-- a feature of a list. Wald tests come first, then likelihood ratios, if the model has them.
CREATE FUNCTION tuskml.model_terms(model tuskml_model)
RETURNS TABLE (term text, df integer, test text, statistic float8, p_value float8)
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    kept jsonb := (model).options::jsonb->'terms';
    columns jsonb := (model).preparation::jsonb->'columns';
BEGIN
    IF (model).task IS NULL OR (kept IS NULL AND NOT tuskml._tuskml_was_fitted((model).status)) THEN
        RETURN;
    END IF;
    IF kept IS NULL THEN
        RAISE EXCEPTION 'model_terms: the model does not keep tests of its terms, train it with the option "fit": true and at most 512 features'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN QUERY
    SELECT coalesce(columns->(at::integer - 1)->>'name', (model).features[at], 'x' || at), (t->>0)::integer,
           CASE WHEN likelihood THEN 'LR' WHEN tuskml._tuskml_is_tested_by_t((model).task) THEN 'F' ELSE 'chi2' END,
           (t->>1)::float8, (t->>2)::float8
    FROM (SELECT t, at, false FROM jsonb_array_elements(kept) WITH ORDINALITY AS e (t, at)
          UNION ALL
          SELECT t, at, true FROM jsonb_array_elements((model).options::jsonb->'ratios') WITH ORDINALITY AS e (t, at))
        AS tested (t, at, likelihood)
    ORDER BY likelihood, at;
END
$$;

-- The trials of a search: one row per candidate and set of held-out rows, and one with fold NULL
-- for the mean of them.
CREATE FUNCTION tuskml.model_trials(model tuskml_model)
RETURNS TABLE (configuration text, fold bigint, iterations bigint, metric float8, std_err float8, seconds float8,
               status text, rows float8, chosen boolean, held_out text)
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    kept jsonb := (model).trials::jsonb;
BEGIN
    IF (model).task IS NULL OR (kept->'trials' IS NULL AND NOT tuskml._tuskml_was_fitted((model).status)) THEN
        RETURN;
    END IF;
    IF kept->'trials' IS NULL THEN
        RAISE EXCEPTION 'model_trials: the model is of no search, train it with a list of values for an option'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN QUERY
    WITH tried AS (SELECT t, at - 1 AS i FROM jsonb_array_elements(kept->'trials') WITH ORDINALITY AS e (t, at)),
    folds AS (
        SELECT i, f, at - 1 AS fold
        FROM tried, LATERAL jsonb_array_elements(t->'folds') WITH ORDINALITY AS e (f, at))
    SELECT (t->'configuration')::text, place, (f->>'iterations')::bigint, (coalesce(f, t)->>'metric')::float8,
           CASE WHEN f IS NULL THEN (t->>'std_err')::float8 END,
           CASE WHEN f IS NULL THEN total ELSE (f->>'seconds')::float8 END, f->>'status', (t->>'rows')::float8,
           CASE WHEN f IS NULL THEN i = (kept->>'chosen')::bigint END, kept->'held_out'->>(place::integer)
    FROM tried CROSS JOIN LATERAL (
        SELECT NULL::bigint AS place, NULL::jsonb AS f,
               (SELECT sum((one.f->>'seconds')::float8) FROM folds AS one WHERE one.i = tried.i) AS total
        UNION ALL SELECT each.fold, each.f, NULL FROM folds AS each WHERE each.i = tried.i) AS part
    ORDER BY i, place NULLS FIRST;
END
$$;

-- A path of penalties: one row per penalty, from the largest one on. features has the indices of
-- nonzero weights.
CREATE FUNCTION tuskml.model_path(model tuskml_model)
RETURNS TABLE (step bigint, penalty float8, loss float8, gap float8, held_out float8, held_out_error float8, intercept float8,
               n_weights bigint, features bigint[], weights float8[], chosen boolean)
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    kept jsonb := (model).trials::jsonb;
BEGIN
    IF (model).task IS NULL OR (kept->'path' IS NULL AND NOT tuskml._tuskml_was_fitted((model).status)) THEN
        RETURN;
    END IF;
    IF kept->'path' IS NULL THEN
        RAISE EXCEPTION 'model_path: the model is of no path, train it by lasso, elastic_net or sparse_logistic without the option "lambda"'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN QUERY
    SELECT at, (t->>'lambda')::float8, (t->>'loss')::float8, (t->>'gap')::float8, (t->>'held_out')::float8,
           (t->>'held_out_error')::float8, (t->>'intercept')::float8, jsonb_array_length(t->'feature')::bigint,
           ARRAY(SELECT f::bigint FROM jsonb_array_elements_text(t->'feature') WITH ORDINALITY AS e (f, i) ORDER BY i),
           ARRAY(SELECT w::float8 FROM jsonb_array_elements_text(t->'weight') WITH ORDINALITY AS e (w, i) ORDER BY i),
           at - 1 = (kept->>'chosen')::bigint
    FROM jsonb_array_elements(kept->'path') WITH ORDINALITY AS e (t, at) ORDER BY at;
END
$$;

-- Coefficients that lie in a store may be more than a result has room for: `tuskml store export` writes them.
-- One row per coefficient, the intercept first (feature 0): estimate, standard error, z or t, its p-value, the 95% confidence
-- interval and exp(estimate) where that is a ratio; note says why some are missing.
CREATE FUNCTION tuskml.model_summary(model tuskml_model)
RETURNS TABLE (feature integer, term text, estimate float8, std_err float8, test text, statistic float8, p_value float8,
               lower float8, upper float8, ratio float8, note text)
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    -- Each field is read once: where the model lies in a table, reading a field decompresses the whole of it.
    task text := model.task;
    options text := model.options;
    status text := model.status;
    store text := model.store;
    names text[] := CASE WHEN cardinality(model.features) >= model.n_features THEN model.features END;
    class_names text[] := model.class_names;
    several boolean := task = 'logistic' AND cardinality(model.classes) > 2;
    has_terms boolean := tuskml._tuskml_has_terms(task);
    -- Of centres: the number of features, that of centres, whether features have units, these, and then the centres.
    has_centres boolean := tuskml._tuskml_has_centres(task);
    by_t boolean := tuskml._tuskml_is_tested_by_t(task);
    -- Thresholds between ordered levels come first and take the intercept's place.
    cuts integer := CASE WHEN task = 'ordinal' AND cardinality(model.classes) <= cardinality(model.coef)
                         THEN cardinality(model.classes) - 1 ELSE 0 END;
    estimates float8[] := CASE WHEN several OR cuts > 0 THEN model.coef
                               WHEN has_centres THEN model.coef[4 + (model.coef[3] * model.coef[1])::integer:]
                               WHEN NOT has_terms THEN ARRAY[model.intercept]
                               ELSE model.intercept || model.coef END;
    std_errs float8[] := model.std_err;
    width bigint := CASE WHEN several THEN greatest(cardinality(model.coef) / cardinality(model.classes), 1)
                         WHEN has_centres THEN (model.coef[1] + 1)::bigint
                         ELSE coalesce(cardinality(model.coef), 0) + 1 END;
    errors bigint := (SELECT count(e) FROM unnest(std_errs) AS e);
    freedom float8 := CASE WHEN by_t THEN coalesce((options::jsonb->>'freedom')::float8, model.n_rows - errors) ELSE 'Infinity' END;
    reach float8 := tuskml._tuskml_interval(freedom);
BEGIN
    IF model.coef IS NULL AND has_centres OR model.coef IS NULL AND has_terms AND NOT coalesce(tuskml._tuskml_refuse_stored(store), false) OR task IS NULL THEN
        RETURN;
    END IF;
    RETURN QUERY
    WITH terms AS MATERIALIZED (
        SELECT t.place - 1 AS at, CASE WHEN cuts > 0 THEN greatest(t.place - cuts, 0) ELSE (t.place - 1) % width END AS feature, t.estimate, t.std_err,
               tuskml._tuskml_divide(t.estimate, t.std_err) AS statistic
        FROM unnest(estimates, std_errs) WITH ORDINALITY AS t (estimate, std_err, place))
    SELECT feature::integer,
           CASE WHEN several THEN class_names[at / width + 1] || ': ' WHEN has_centres THEN at / width + 1 || ': ' ELSE '' END
           || CASE WHEN at < cuts THEN class_names[at + 1] || ' | ' || class_names[at + 2] WHEN feature = 0 AND has_centres THEN 'rows' WHEN feature = 0 THEN 'intercept' WHEN names IS NOT NULL THEN names[feature] ELSE 'x' || feature END,
           estimate, std_err, CASE WHEN by_t THEN 't' WHEN task = 'logistic' OR std_errs IS NOT NULL THEN 'z' END, statistic,
           tuskml._tuskml_p_value(statistic, freedom),
           tuskml._tuskml_bound(estimate, -reach, std_err), tuskml._tuskml_bound(estimate, reach, std_err),
           CASE WHEN std_err IS NOT NULL AND at >= cuts AND options::jsonb->>'link' IS NULL THEN tuskml._tuskml_ratio(task, estimate) END,
           CASE WHEN std_err IS NULL AND several AND at < width AND errors > 0
                THEN 'the weights of the first class, the reference, are 0'
                WHEN std_err IS NULL THEN tuskml._tuskml_note(task, options, status, store, errors, feature) END
    FROM terms WHERE tuskml._tuskml_is_absorbed(options, feature) IS NOT TRUE ORDER BY at;
END
$$;
