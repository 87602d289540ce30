-- The text of up to five effects, the strongest first. strengths, effects: by term, where an effect of NULL is none.
CREATE FUNCTION tuskml._tuskml_effects(terms text[], strengths float8[], effects float8[], form text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp SET extra_float_digits = -11 AS $$
SELECT string_agg(term || CASE WHEN form = 'signed' THEN CASE WHEN effect > 0 THEN ' +' ELSE ' ' END || effect ELSE ' ' || round(effect) || ' %' END,
                  ', ' ORDER BY strength DESC, place)
FROM (SELECT * FROM unnest(terms, strengths, effects) WITH ORDINALITY AS t (term, strength, effect, place)
      WHERE effect <> 0 ORDER BY strength DESC, place LIMIT 5) AS strongest
$$;

-- A model in one row that a person reads, its numbers in four digits. effects: of up to five terms the coefficient, those with the
-- largest statistic first, without standard errors those with the largest coefficient; of trees, features by their share of the gain.
CREATE FUNCTION tuskml.model_card(model tuskml_model)
RETURNS TABLE (task text, status text, n_rows bigint, loss float8, held_out float8, effects text)
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp SET extra_float_digits = -11
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    kept jsonb := model.trials::jsonb;
    chosen integer := kept->>'chosen';
    names text[] := CASE WHEN cardinality(model.features) >= model.n_features THEN model.features END;
    class_names text[] := CASE WHEN model.task = 'logistic' AND cardinality(model.classes) > 2 THEN model.class_names END;
    -- Of ordered levels the last threshold takes the intercept's place.
    cuts integer := CASE WHEN model.task = 'ordinal' AND model.coef IS NOT NULL THEN cardinality(model.classes) - 1 ELSE 0 END;
    estimates float8[] := CASE WHEN cuts > 0 THEN model.coef[cuts:] WHEN class_names IS NULL THEN model.intercept || model.coef ELSE model.coef END;
    errors float8[] := model.std_err[greatest(cuts, 1):];
    width bigint := greatest(cardinality(estimates) / CASE WHEN class_names IS NULL THEN 1 ELSE cardinality(class_names) END, 1);
    tested boolean := (SELECT count(e) > 0 FROM unnest(errors) AS e);
BEGIN
    task := model.task;
    status := model.status;
    n_rows := model.n_rows;
    loss := model.loss::text;
    held_out := coalesce(kept->'trials'->chosen->>'metric', kept->'path'->chosen->>'held_out')::float8::text;
    IF task IS NULL THEN
        RETURN;
    ELSIF tuskml._tuskml_is_of_trees(task) THEN
        effects := (SELECT tuskml._tuskml_effects(array_agg(feature ORDER BY place), array_agg(gain ORDER BY place),
                                                  array_agg(100 * gain / total ORDER BY place), 'percent')
                    FROM (SELECT feature, gain, nullif(sum(gain) OVER (), 0) AS total, place
                          FROM tuskml.feature_importance(model) WITH ORDINALITY AS f (feature, gain, splits, place)) AS shares);
    ELSIF (tuskml._tuskml_weighs_features(task) OR cuts > 0) AND model.coef IS NOT NULL THEN
        effects := (SELECT tuskml._tuskml_effects(
                        array_agg(CASE WHEN class_names IS NULL THEN '' ELSE class_names[(place - 1) / width + 1] || ': ' END
                                  || CASE WHEN names IS NULL THEN 'x' || (place - 1) % width ELSE names[(place - 1) % width] END ORDER BY place),
                        array_agg(CASE WHEN tested THEN coalesce(abs(tuskml._tuskml_divide(estimate, error)), 0) ELSE abs(estimate) END ORDER BY place),
                        array_agg(CASE WHEN (place - 1) % width > 0 AND tuskml._tuskml_is_absorbed(model.options, place - 1) IS NOT TRUE THEN estimate END ORDER BY place), 'signed')
                    FROM unnest(estimates, errors) WITH ORDINALITY AS t (estimate, error, place));
    END IF;
    RETURN NEXT;
END
$$;

-- A text that is equal for models that predict the same and were trained on as many rows, whatever time that took.
CREATE FUNCTION tuskml.model_fingerprint(model tuskml_model) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
SELECT CASE WHEN (model).task IS NOT NULL THEN md5(
    coalesce((model).task, '') || '|' || coalesce((model).status, '') || '|' || coalesce((model).n_rows::text, '') || '|'
    || coalesce((model).n_skipped::text, '') || '|' || coalesce(md5((model).payload), '')) END
$$;
