-- The hashing trick: names to ids below 2^bits, as DuckDB's and scikit-learn's. A name counts 1, or has the value at
-- its place; a NULL among names or values makes the whole NULL, as one in an array of features does.
CREATE FUNCTION tuskml.hash_features(names text[], bits integer) RETURNS tuskml_sparse_double
AS 'MODULE_PATHNAME', 'tuskml_hash_features' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION tuskml.hash_features(names text[], vals double precision[], bits integer) RETURNS tuskml_sparse_double
AS 'MODULE_PATHNAME', 'tuskml_hash_pairs' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
