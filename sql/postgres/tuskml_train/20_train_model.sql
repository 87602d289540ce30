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

CREATE FUNCTION tuskml._tuskml_train(internal) RETURNS tuskml_model
AS 'MODULE_PATHNAME', 'tuskml_train' LANGUAGE C VOLATILE PARALLEL SAFE SUPPORT tuskml._tuskml_support;
CREATE FUNCTION tuskml._tuskml_explain(internal) RETURNS text
AS 'MODULE_PATHNAME', 'tuskml_explain' LANGUAGE C VOLATILE PARALLEL SAFE SUPPORT tuskml._tuskml_support;
CREATE FUNCTION tuskml._tuskml_send_rows(internal) RETURNS text
AS 'MODULE_PATHNAME', 'tuskml_send_rows' LANGUAGE C VOLATILE PARALLEL SAFE SUPPORT tuskml._tuskml_support;
CREATE FUNCTION tuskml._tuskml_take_model(internal) RETURNS tuskml_model
AS 'MODULE_PATHNAME', 'tuskml_take_model' LANGUAGE C VOLATILE PARALLEL SAFE SUPPORT tuskml._tuskml_support;

CREATE FUNCTION tuskml._tuskml_combine(internal, internal) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_combine' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_support_serialize(internal) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_support_serialize' LANGUAGE C STRICT;
CREATE FUNCTION tuskml._tuskml_serialize(internal) RETURNS bytea
AS 'MODULE_PATHNAME', 'tuskml_serialize' LANGUAGE C VOLATILE STRICT PARALLEL SAFE SUPPORT tuskml._tuskml_support_serialize;
CREATE FUNCTION tuskml._tuskml_deserialize(bytea, internal) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_deserialize' LANGUAGE C VOLATILE STRICT PARALLEL SAFE;

-- label: a boolean, a number or text; features: an array of numbers, or the result of sparse().
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, anyarray) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_dense' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, tuskml_sparse_real) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_sparse' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, tuskml_sparse_double) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_sparse' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, anyarray, text) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_dense' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, tuskml_sparse_real, text) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_sparse' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, tuskml_sparse_double, text) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_sparse' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE AGGREGATE tuskml.train_model(task text, label anycompatible, features anyarray) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_train, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.explain_training(task text, label anycompatible, features anyarray) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_explain, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
-- Internal to the package (learners/receiving.py): rows for Python, and models of Python; handle:
-- of an object there.
CREATE AGGREGATE tuskml._tusk_send_rows(handle text, label anycompatible, features anyarray) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_send_rows, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.train_model(task text, label anycompatible, features tuskml_sparse_real) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_train, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.explain_training(task text, label anycompatible, features tuskml_sparse_real) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_explain, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.train_model(task text, label anycompatible, features tuskml_sparse_double) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_train, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.explain_training(task text, label anycompatible, features tuskml_sparse_double) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_explain, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.train_model(task text, label anycompatible, features anyarray, options text) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_train, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.explain_training(task text, label anycompatible, features anyarray, options text) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_explain, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml._tusk_take_model(handle text, label anycompatible, features anyarray, options text) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_take_model, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.train_model(task text, label anycompatible, features tuskml_sparse_real, options text) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_train, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.explain_training(task text, label anycompatible, features tuskml_sparse_real, options text) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_explain, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.train_model(task text, label anycompatible, features tuskml_sparse_double, options text) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_train, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.explain_training(task text, label anycompatible, features tuskml_sparse_double, options text) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_explain, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);

-- Features that are a row with names.
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, record) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_named' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, record, text) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_named' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE AGGREGATE tuskml.train_model(task text, label anycompatible, features record) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_train, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.train_model(task text, label anycompatible, features record, options text) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_train, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.explain_training(task text, label anycompatible, features record) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_explain, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.explain_training(task text, label anycompatible, features record, options text) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_explain, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
-- Rows with weights, and with offsets of their margins.
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, anyarray, text, double precision) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_dense' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, tuskml_sparse_real, text, double precision) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_sparse' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, tuskml_sparse_double, text, double precision) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_sparse' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, record, text, double precision) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_named' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE AGGREGATE tuskml.train_model(task text, label anycompatible, features anyarray, options text, weight double precision) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_train, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.explain_training(task text, label anycompatible, features anyarray, options text, weight double precision) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_explain, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.train_model(task text, label anycompatible, features tuskml_sparse_real, options text, weight double precision) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_train, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.explain_training(task text, label anycompatible, features tuskml_sparse_real, options text, weight double precision) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_explain, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.train_model(task text, label anycompatible, features tuskml_sparse_double, options text, weight double precision) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_train, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.explain_training(task text, label anycompatible, features tuskml_sparse_double, options text, weight double precision) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_explain, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.train_model(task text, label anycompatible, features record, options text, weight double precision) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_train, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.explain_training(task text, label anycompatible, features record, options text, weight double precision) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_explain, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, anyarray, text, double precision, double precision) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_dense' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, tuskml_sparse_real, text, double precision, double precision) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_sparse' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, tuskml_sparse_double, text, double precision, double precision) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_sparse' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, record, text, double precision, double precision) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_named' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE AGGREGATE tuskml.train_model(task text, label anycompatible, features anyarray, options text, weight double precision, "offset" double precision) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_train, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.explain_training(task text, label anycompatible, features anyarray, options text, weight double precision, "offset" double precision) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_explain, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.train_model(task text, label anycompatible, features tuskml_sparse_real, options text, weight double precision, "offset" double precision) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_train, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.explain_training(task text, label anycompatible, features tuskml_sparse_real, options text, weight double precision, "offset" double precision) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_explain, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.train_model(task text, label anycompatible, features tuskml_sparse_double, options text, weight double precision, "offset" double precision) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_train, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.explain_training(task text, label anycompatible, features tuskml_sparse_double, options text, weight double precision, "offset" double precision) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_explain, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.train_model(task text, label anycompatible, features record, options text, weight double precision, "offset" double precision) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_train, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.explain_training(task text, label anycompatible, features record, options text, weight double precision, "offset" double precision) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_explain, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);

-- Options of another type: json and jsonb, as clients send them; a sentence for others.
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, anyarray, "any") RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_dense' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE AGGREGATE tuskml.train_model(task text, label anycompatible, features anyarray, options "any") (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_train, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.explain_training(task text, label anycompatible, features anyarray, options "any") (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_explain, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, tuskml_sparse_real, "any") RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_sparse' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE AGGREGATE tuskml.train_model(task text, label anycompatible, features tuskml_sparse_real, options "any") (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_train, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.explain_training(task text, label anycompatible, features tuskml_sparse_real, options "any") (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_explain, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, tuskml_sparse_double, "any") RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_sparse' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE AGGREGATE tuskml.train_model(task text, label anycompatible, features tuskml_sparse_double, options "any") (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_train, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.explain_training(task text, label anycompatible, features tuskml_sparse_double, options "any") (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_explain, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, record, "any") RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_named' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE AGGREGATE tuskml.train_model(task text, label anycompatible, features record, options "any") (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_train, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.explain_training(task text, label anycompatible, features record, options "any") (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_explain, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, anyarray, "any", double precision) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_dense' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE AGGREGATE tuskml.train_model(task text, label anycompatible, features anyarray, options "any", weight double precision) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_train, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.explain_training(task text, label anycompatible, features anyarray, options "any", weight double precision) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_explain, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, tuskml_sparse_real, "any", double precision) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_sparse' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE AGGREGATE tuskml.train_model(task text, label anycompatible, features tuskml_sparse_real, options "any", weight double precision) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_train, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.explain_training(task text, label anycompatible, features tuskml_sparse_real, options "any", weight double precision) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_explain, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, tuskml_sparse_double, "any", double precision) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_sparse' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE AGGREGATE tuskml.train_model(task text, label anycompatible, features tuskml_sparse_double, options "any", weight double precision) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_train, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.explain_training(task text, label anycompatible, features tuskml_sparse_double, options "any", weight double precision) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_explain, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, record, "any", double precision) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_named' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE AGGREGATE tuskml.train_model(task text, label anycompatible, features record, options "any", weight double precision) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_train, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.explain_training(task text, label anycompatible, features record, options "any", weight double precision) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_explain, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, anyarray, "any", double precision, double precision) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_dense' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE AGGREGATE tuskml.train_model(task text, label anycompatible, features anyarray, options "any", weight double precision, "offset" double precision) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_train, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.explain_training(task text, label anycompatible, features anyarray, options "any", weight double precision, "offset" double precision) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_explain, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, tuskml_sparse_real, "any", double precision, double precision) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_sparse' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE AGGREGATE tuskml.train_model(task text, label anycompatible, features tuskml_sparse_real, options "any", weight double precision, "offset" double precision) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_train, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.explain_training(task text, label anycompatible, features tuskml_sparse_real, options "any", weight double precision, "offset" double precision) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_explain, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, tuskml_sparse_double, "any", double precision, double precision) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_sparse' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE AGGREGATE tuskml.train_model(task text, label anycompatible, features tuskml_sparse_double, options "any", weight double precision, "offset" double precision) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_train, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.explain_training(task text, label anycompatible, features tuskml_sparse_double, options "any", weight double precision, "offset" double precision) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_explain, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, record, "any", double precision, double precision) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_named' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE AGGREGATE tuskml.train_model(task text, label anycompatible, features record, options "any", weight double precision, "offset" double precision) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_train, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);
CREATE AGGREGATE tuskml.explain_training(task text, label anycompatible, features record, options "any", weight double precision, "offset" double precision) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_explain, FINALFUNC_MODIFY = READ_WRITE,
    COMBINEFUNC = tuskml._tuskml_combine, SERIALFUNC = tuskml._tuskml_serialize, DESERIALFUNC = tuskml._tuskml_deserialize, PARALLEL = SAFE);

-- Features of other types: a sentence in place of "function does not exist". There is no overload of any type, since a
-- table's row would then match two.
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, double precision) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_named' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, double precision, text) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_named' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, text) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_named' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, text, text) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_named' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, boolean) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_named' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, jsonb) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_named' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, timestamp with time zone) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_named' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, boolean, text) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_named' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, jsonb, text) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_named' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_collect(internal, text, anycompatible, timestamp with time zone, text) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_collect_named' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE AGGREGATE tuskml.train_model(task text, label anycompatible, features double precision) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, FINALFUNC = tuskml._tuskml_train, FINALFUNC_MODIFY = READ_WRITE);
CREATE AGGREGATE tuskml.train_model(task text, label anycompatible, features double precision, options text) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, FINALFUNC = tuskml._tuskml_train, FINALFUNC_MODIFY = READ_WRITE);
CREATE AGGREGATE tuskml.train_model(task text, label anycompatible, features text) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, FINALFUNC = tuskml._tuskml_train, FINALFUNC_MODIFY = READ_WRITE);
CREATE AGGREGATE tuskml.train_model(task text, label anycompatible, features text, options text) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, FINALFUNC = tuskml._tuskml_train, FINALFUNC_MODIFY = READ_WRITE);
CREATE AGGREGATE tuskml.train_model(task text, label anycompatible, features boolean) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, FINALFUNC = tuskml._tuskml_train, FINALFUNC_MODIFY = READ_WRITE);
CREATE AGGREGATE tuskml.train_model(task text, label anycompatible, features jsonb) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, FINALFUNC = tuskml._tuskml_train, FINALFUNC_MODIFY = READ_WRITE);
CREATE AGGREGATE tuskml.train_model(task text, label anycompatible, features timestamp with time zone) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, FINALFUNC = tuskml._tuskml_train, FINALFUNC_MODIFY = READ_WRITE);
CREATE AGGREGATE tuskml.train_model(task text, label anycompatible, features boolean, options text) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, FINALFUNC = tuskml._tuskml_train, FINALFUNC_MODIFY = READ_WRITE);
CREATE AGGREGATE tuskml.train_model(task text, label anycompatible, features jsonb, options text) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, FINALFUNC = tuskml._tuskml_train, FINALFUNC_MODIFY = READ_WRITE);
CREATE AGGREGATE tuskml.train_model(task text, label anycompatible, features timestamp with time zone, options text) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, FINALFUNC = tuskml._tuskml_train, FINALFUNC_MODIFY = READ_WRITE);
CREATE AGGREGATE tuskml.explain_training(task text, label anycompatible, features double precision) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, FINALFUNC = tuskml._tuskml_explain, FINALFUNC_MODIFY = READ_WRITE);
CREATE AGGREGATE tuskml.explain_training(task text, label anycompatible, features double precision, options text) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, FINALFUNC = tuskml._tuskml_explain, FINALFUNC_MODIFY = READ_WRITE);
CREATE AGGREGATE tuskml.explain_training(task text, label anycompatible, features text) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, FINALFUNC = tuskml._tuskml_explain, FINALFUNC_MODIFY = READ_WRITE);
CREATE AGGREGATE tuskml.explain_training(task text, label anycompatible, features text, options text) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, FINALFUNC = tuskml._tuskml_explain, FINALFUNC_MODIFY = READ_WRITE);
CREATE AGGREGATE tuskml.explain_training(task text, label anycompatible, features boolean) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, FINALFUNC = tuskml._tuskml_explain, FINALFUNC_MODIFY = READ_WRITE);
CREATE AGGREGATE tuskml.explain_training(task text, label anycompatible, features jsonb) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, FINALFUNC = tuskml._tuskml_explain, FINALFUNC_MODIFY = READ_WRITE);
CREATE AGGREGATE tuskml.explain_training(task text, label anycompatible, features timestamp with time zone) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, FINALFUNC = tuskml._tuskml_explain, FINALFUNC_MODIFY = READ_WRITE);
CREATE AGGREGATE tuskml.explain_training(task text, label anycompatible, features boolean, options text) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, FINALFUNC = tuskml._tuskml_explain, FINALFUNC_MODIFY = READ_WRITE);
CREATE AGGREGATE tuskml.explain_training(task text, label anycompatible, features jsonb, options text) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, FINALFUNC = tuskml._tuskml_explain, FINALFUNC_MODIFY = READ_WRITE);
CREATE AGGREGATE tuskml.explain_training(task text, label anycompatible, features timestamp with time zone, options text) (
    SFUNC = tuskml._tuskml_collect, STYPE = internal, FINALFUNC = tuskml._tuskml_explain, FINALFUNC_MODIFY = READ_WRITE);
