-- The offline stage of stored models: feature frequencies, and the layout of features in keys of
-- the store.
CREATE TYPE @extschema@.tuskml_frequency AS (feature bigint, estimate bigint, "lower" bigint, "upper" bigint);
COMMENT ON TYPE tuskml_frequency IS 'How often a feature occurs: an item of what feature_frequencies answers';
CREATE TYPE @extschema@.tuskml_partitioning AS (
    features bigint, partitions bigint, block_sizes bigint[],
    requests_before float8, requests_after float8, saved float8,
    rows_seen bigint, rows_skipped bigint, rows_sampled bigint, explanation text, index_map text);
COMMENT ON TYPE tuskml_partitioning IS 'Which features of a stored model share keys: what partition_model answers';

CREATE FUNCTION tuskml._tuskml_frequencies(internal) RETURNS tuskml_frequency[]
AS 'MODULE_PATHNAME', 'tuskml_frequencies' LANGUAGE C VOLATILE PARALLEL SAFE SUPPORT tuskml._tuskml_support;
CREATE FUNCTION tuskml._tuskml_partition(internal) RETURNS tuskml_partitioning
AS 'MODULE_PATHNAME', 'tuskml_partition' LANGUAGE C VOLATILE PARALLEL SAFE SUPPORT tuskml._tuskml_support;

-- indices: an array of feature ids, as sparse() takes it.
CREATE FUNCTION tuskml._tuskml_collect_ids(internal, anyarray{|, text}) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_ids' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE AGGREGATE tuskml.{1:feature_frequencies|partition_model}(indices anyarray{|, options text}) (
    SFUNC = tuskml._tuskml_collect_ids, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_{1:frequencies|partition}, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);

-- The versions that partition_model kept under names, each a row; error says why one cannot be read.
CREATE FUNCTION tuskml.partitionings()
RETURNS TABLE (partitioning text, version bigint, created timestamptz, size bigint, features bigint, keys bigint, others text,
               rows_seen bigint, requests_before float8, requests_after float8, error text)
LANGUAGE sql VOLATILE PARALLEL RESTRICTED SET search_path = pg_catalog, pg_temp AS $$
SELECT kept.* FROM (
    SELECT (tuskml.partition_model('{}'::integer[], '{"list": true}')).explanation::json AS list) AS told,
    json_to_recordset(list) AS kept (partitioning text, version bigint, created timestamptz, size bigint, features bigint,
        keys bigint, others text, rows_seen bigint, requests_before float8, requests_after float8, error text)
$$;
COMMENT ON FUNCTION tuskml.partitionings() IS 'The versions that partition_model kept under names';
