-- Sparse features: ids >= 0 and their values, in any order; repeated ids add up. Values of real stay real, all
-- others become double precision: an overload for each type, so that literals and columns need no cast.
CREATE FUNCTION tuskml.sparse(indices anyarray, vals {1:real|double precision|numeric|integer|bigint|smallint}[])
RETURNS tuskml_sparse_{1:real|double|double|double|double|double}
AS 'MODULE_PATHNAME', 'tuskml_sparse' LANGUAGE C IMMUTABLE PARALLEL SAFE;

-- Features that are neither an array nor sparse are a row with names, whose columns are matched by name.
-- Where a query shows the columns of such a row, the planner calls the function for columns in its place: their names
-- and, behind them, the columns.
CREATE FUNCTION tuskml._tuskml_row_columns(internal) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_row_columns' LANGUAGE C STRICT;
REVOKE ALL ON FUNCTION tuskml._tuskml_row_columns(internal) FROM PUBLIC;
CREATE FUNCTION tuskml._tuskml_{1:predict|predict_proba|decision|predict_class|predict_probas}_columns(model tuskml_model, names text[],
    VARIADIC columns "any") RETURNS {1:float8|float8|float8|text|jsonb}
AS 'MODULE_PATHNAME', 'tuskml_{1}_columns' LANGUAGE C STABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_predict_proba_of_columns(model tuskml_model, names text[], class_name "any", VARIADIC columns "any")
RETURNS float8
AS 'MODULE_PATHNAME', 'tuskml_predict_proba_of_columns' LANGUAGE C STABLE PARALLEL SAFE;

-- The class in the caller's own values, or the number.
CREATE FUNCTION tuskml.predict(model tuskml_model, features {1:anyarray|record|tuskml_sparse_real|tuskml_sparse_double}) RETURNS float8
AS 'MODULE_PATHNAME', 'tuskml_predict_{1:dense|row|sparse|sparse}' LANGUAGE C {1:IMMUTABLE|STABLE|IMMUTABLE|IMMUTABLE} PARALLEL SAFE
    {1:|SUPPORT tuskml._tuskml_row_columns||};

-- The probability of the higher class; logistic models only.
CREATE FUNCTION tuskml.predict_proba(model tuskml_model, features {1:anyarray|record|tuskml_sparse_real|tuskml_sparse_double}) RETURNS float8
AS 'MODULE_PATHNAME', 'tuskml_predict_proba_{1:dense|row|sparse|sparse}' LANGUAGE C {1:IMMUTABLE|STABLE|IMMUTABLE|IMMUTABLE} PARALLEL SAFE
    {1:|SUPPORT tuskml._tuskml_row_columns||};

-- The raw margin, coef . features + intercept.
CREATE FUNCTION tuskml.decision(model tuskml_model, features {1:anyarray|record|tuskml_sparse_real|tuskml_sparse_double}) RETURNS float8
AS 'MODULE_PATHNAME', 'tuskml_decision_{1:dense|row|sparse|sparse}' LANGUAGE C {1:IMMUTABLE|STABLE|IMMUTABLE|IMMUTABLE} PARALLEL SAFE
    {1:|SUPPORT tuskml._tuskml_row_columns||};

-- The class or number, the probability of the higher class, and the class by its name, of the margin plus a number of the
-- row.
CREATE FUNCTION tuskml.{2:predict|predict_proba|predict_class}_with_offset(model tuskml_model,
    features {1:anyarray|record|tuskml_sparse_real|tuskml_sparse_double}, "offset" double precision) RETURNS {2:float8|float8|text}
AS 'MODULE_PATHNAME', 'tuskml_{2}_with_offset_{1:dense|row|sparse|sparse}' LANGUAGE C {1:IMMUTABLE|STABLE|IMMUTABLE|IMMUTABLE} PARALLEL SAFE;

-- The class by its name, the probabilities of all classes by their names, and that of one class, by its name or number.
CREATE FUNCTION tuskml.{2:predict_class|predict_probas}(model tuskml_model, features {1:anyarray|record|tuskml_sparse_real|tuskml_sparse_double})
RETURNS {2:text|jsonb}
AS 'MODULE_PATHNAME', 'tuskml_{2}_{1:dense|row|sparse|sparse}' LANGUAGE C {1:IMMUTABLE|STABLE|IMMUTABLE|IMMUTABLE} PARALLEL SAFE
    {1:|SUPPORT tuskml._tuskml_row_columns||};
CREATE FUNCTION tuskml.predict_proba(model tuskml_model, features {1:anyarray|record|tuskml_sparse_real|tuskml_sparse_double},
    class_name {text|boolean|integer|bigint|double precision|numeric}) RETURNS float8
AS 'MODULE_PATHNAME', 'tuskml_predict_proba_of_{1:dense|row|sparse|sparse}' LANGUAGE C {1:IMMUTABLE|STABLE|IMMUTABLE|IMMUTABLE} PARALLEL SAFE
    {1:|SUPPORT tuskml._tuskml_row_columns||};

-- The payload of a model's other fields, which is what predictions read.
CREATE FUNCTION tuskml.model_payload(model tuskml_model) RETURNS bytea
AS 'MODULE_PATHNAME', 'tuskml_model_payload' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

-- A model whose payload is made anew: for models that were edited, read from JSON without it, or trained before there were
-- payloads.
CREATE FUNCTION tuskml.with_payload(model tuskml_model) RETURNS tuskml_model
AS 'MODULE_PATHNAME', 'tuskml_with_payload' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

-- The hashing trick: names to ids below 2^bits, as DuckDB's and scikit-learn's. A name counts 1, or has the value at
-- its place; a NULL among names or values makes the whole NULL, as one in an array of features does.
CREATE FUNCTION tuskml.hash_features(names text[], bits integer) RETURNS tuskml_sparse_double
AS 'MODULE_PATHNAME', 'tuskml_hash_features' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION tuskml.hash_features(names text[], vals double precision[], bits integer) RETURNS tuskml_sparse_double
AS 'MODULE_PATHNAME', 'tuskml_hash_pairs' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
