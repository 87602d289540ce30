-- The hashing trick: names as 'name' or 'name:value' to ids below 2^bits, as DuckDB's and scikit-learn's.
CREATE FUNCTION hash_features(names_and_values text[], bits integer) RETURNS tuskml_sparse_double
AS 'MODULE_PATHNAME', 'tuskml_hash_features' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
