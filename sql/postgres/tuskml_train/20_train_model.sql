-- The only function that calls Python. It has no arguments: a direct call finds no current batch
-- and raises an error.
CREATE FUNCTION tuskml._tuskml_answer() RETURNS void
LANGUAGE plpython3u VOLATILE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $python$
    if "trainer" not in SD:
@load.py@
        SD["trainer"] = load("tuskml.groups.contract.backend").trainer(load("tuskml.version").VERSION)
    SD["trainer"]()
$python$;

-- Called by the planner of a training: groups are formed by hash.
CREATE FUNCTION tuskml._tuskml_support(internal) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_support' LANGUAGE C STRICT;

CREATE FUNCTION tuskml._tuskml_{1:train|explain|send_rows|take_model|read_model|write_sql|pool}(internal) RETURNS {1:tuskml_model|text|text|tuskml_model|tuskml_model|text|text}
AS 'MODULE_PATHNAME', 'tuskml_{1}' LANGUAGE C VOLATILE PARALLEL SAFE SUPPORT tuskml._tuskml_support;

CREATE FUNCTION tuskml._tuskml_combine(internal, internal) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_combine' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_support_serialize(internal) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_support_serialize' LANGUAGE C STRICT;
CREATE FUNCTION tuskml._tuskml_serialize(internal) RETURNS bytea
AS 'MODULE_PATHNAME', 'tuskml_serialize' LANGUAGE C VOLATILE STRICT PARALLEL SAFE SUPPORT tuskml._tuskml_support_serialize;
CREATE FUNCTION tuskml._tuskml_deserialize(bytea, internal) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_deserialize' LANGUAGE C VOLATILE STRICT PARALLEL SAFE;

-- label: a boolean, a number or text; features: an array of numbers, the result of sparse(), or a row with names. Rows
-- may have weights, and offsets of their margins. Options of another type: json and jsonb, as clients send them; a
-- sentence for others.
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, {1:anyarray|tuskml_sparse_real|tuskml_sparse_double|record}{
    |, text|, text, double precision|, text, double precision, double precision
    |, "any"|, "any", double precision|, "any", double precision, double precision}) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_{1:dense|sparse|sparse|named}' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE AGGREGATE tuskml.{1:train_model|explain_training}(task text, label anycompatible, features {anyarray|tuskml_sparse_real
    |tuskml_sparse_double|record}{|, options text|, options text, weight double precision
    |, options text, weight double precision, "offset" double precision|, options "any"|, options "any", weight double precision
    |, options "any", weight double precision, "offset" double precision}) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_{1:train|explain}, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);

-- Internal to the package (learners/receiving.py): rows for Python, and models of Python; handle:
-- of an object there. _tusk_read_model has another package's text for options, _tusk_write_sql a call of model_to_sql.
-- _tusk_pool returns a handle for _tusk_take_model; its offset is the number of the row's group.
CREATE AGGREGATE tuskml._tusk_{1:send_rows|take_model|read_model|write_sql|pool}(handle text, label anycompatible, features anyarray{1:|, options text|, options text|, options text|, options text, weight double precision, "offset" double precision}) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_{1}, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);

CREATE FUNCTION tuskml.model_from(content text) RETURNS tuskml_model
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
SELECT tuskml._tusk_read_model('model_from', 0.0::float8, ARRAY[0.0::float8], content)
$$;
COMMENT ON FUNCTION tuskml.model_from(text) IS 'The model that LightGBM, XGBoost or CatBoost wrote as text';
CREATE FUNCTION tuskml.model_to_sql(model tuskml_model, answer text DEFAULT 'predict', class text DEFAULT NULL) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
SELECT tuskml._tusk_write_sql('model_to_sql', 0.0::float8, ARRAY[0.0::float8],
                              jsonb_build_object('model', to_jsonb(model), 'answer', answer, 'class', class)::text)
WHERE model IS DISTINCT FROM NULL
$$;
COMMENT ON FUNCTION tuskml.model_to_sql(tuskml_model, text, text) IS
    'What the model answers as an expression in plain SQL, which needs no extension';

-- Features of other types: a sentence in place of "function does not exist". There is no overload of any type, since a
-- table's row would then match two.
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, {double precision|text|boolean|jsonb
    |timestamp with time zone}{|, text}) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_named' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE AGGREGATE tuskml.{1:train_model|explain_training}(task text, label anycompatible, features {double precision|text|boolean|jsonb
    |timestamp with time zone}{|, options text}) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, FINALFUNC = tuskml._tuskml_{1:train|explain}, FINALFUNC_MODIFY = READ_WRITE);
