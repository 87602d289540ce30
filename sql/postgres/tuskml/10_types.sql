-- The result of a training: a value that a person can read, with the same fields as DuckDB's
-- STRUCT.
CREATE TYPE @extschema@.tuskml_model AS (
    task text, features text[], preparation text, coef float8[], intercept float8, std_err float8[],
    classes float8[], class_names text[], n_rows bigint, n_skipped bigint, note text, n_features bigint,
    loss float8, history float8[], iterations bigint, converged boolean, status text, plan text, seconds float8,
    options text, store text, trials text, spread float8[], histogram text, payload bytea);
COMMENT ON TYPE tuskml_model IS 'A trained model: what train_model answers and predict reads';

-- tasks (scripts/build/tasks.py)
CREATE FUNCTION tuskml._tuskml_has_terms(task text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$ SELECT task NOT IN ('gbdt', 'random_forest', 'mlp', 'kmeans', 'fm') $$;
CREATE FUNCTION tuskml._tuskml_weighs_features(task text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$ SELECT task NOT IN ('ordinal', 'matrix_factorization', 'gbdt', 'random_forest', 'mlp', 'lda', 'kmeans', 'fm') $$;
CREATE FUNCTION tuskml._tuskml_is_of_trees(task text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$ SELECT task IN ('gbdt', 'random_forest') $$;
CREATE FUNCTION tuskml._tuskml_has_centres(task text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$ SELECT task IN ('kmeans') $$;
CREATE FUNCTION tuskml._tuskml_is_tested_by_t(task text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$ SELECT task IN ('linear', 'gamma', 'tweedie', 'inverse_gaussian') $$;
-- end of tasks

-- Sparse features: feature ids >= 0 and their values.
CREATE TYPE @extschema@.tuskml_sparse_real AS (indices bigint[], "values" real[]);
CREATE TYPE @extschema@.tuskml_sparse_double AS (indices bigint[], "values" double precision[]);

-- A row that a query computes as (SELECT r FROM (SELECT a, b) AS r), in whose place the planner puts ROW(a, b).
CREATE FUNCTION tuskml._tuskml_row_expression(internal) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_row_expression' LANGUAGE C STRICT;
REVOKE ALL ON FUNCTION tuskml._tuskml_row_expression(internal) FROM PUBLIC;
CREATE FUNCTION tuskml._tuskml_row(record) RETURNS record
AS 'MODULE_PATHNAME', 'tuskml_row' LANGUAGE C STABLE PARALLEL SAFE SUPPORT tuskml._tuskml_row_expression;
