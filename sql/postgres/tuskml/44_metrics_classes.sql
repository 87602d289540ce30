-- Metrics that count labels and predicted classes: text, numbers or booleans.
CREATE TYPE @extschema@.tuskml_confusion_cell AS (label text, predicted text, n bigint);
CREATE TYPE @extschema@.tuskml_weighted_confusion_cell AS (label text, predicted text, n bigint, weight float8);

CREATE FUNCTION tuskml._tuskml_classes_number(internal) RETURNS float8
AS 'MODULE_PATHNAME', 'tuskml_classes_number' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_confusion_rows(internal) RETURNS tuskml_confusion_cell[]
AS 'MODULE_PATHNAME', 'tuskml_classes_table' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_confusion_weighted(internal) RETURNS tuskml_weighted_confusion_cell[]
AS 'MODULE_PATHNAME', 'tuskml_classes_table' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_classes_combine(internal, internal) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_classes_combine' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_classes_serialize(internal) RETURNS bytea
AS 'MODULE_PATHNAME', 'tuskml_classes_serialize' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_classes_deserialize(bytea, internal) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_classes_deserialize' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

-- The transitions.
CREATE FUNCTION tuskml._tuskml_precision_score(internal, "any", "any") RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_precision_score' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_precision_score(internal, "any", "any", text) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_precision_score' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_precision_score(internal, "any", "any", text, float8) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_precision_score' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_recall_score(internal, "any", "any") RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_recall_score' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_recall_score(internal, "any", "any", text) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_recall_score' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_recall_score(internal, "any", "any", text, float8) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_recall_score' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_f1_score(internal, "any", "any") RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_f1_score' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_f1_score(internal, "any", "any", text) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_f1_score' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_f1_score(internal, "any", "any", text, float8) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_f1_score' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_confusion(internal, "any", "any") RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_confusion' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_confusion(internal, "any", "any", float8) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_confusion' LANGUAGE C IMMUTABLE PARALLEL SAFE;

-- An aggregate needs these rights of its owner only.
REVOKE ALL ON FUNCTION tuskml._tuskml_classes_number(internal) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_confusion_rows(internal) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_confusion_weighted(internal) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_classes_combine(internal, internal) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_classes_serialize(internal) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_classes_deserialize(bytea, internal) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_precision_score(internal, "any", "any") FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_precision_score(internal, "any", "any", text) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_precision_score(internal, "any", "any", text, float8) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_recall_score(internal, "any", "any") FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_recall_score(internal, "any", "any", text) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_recall_score(internal, "any", "any", text, float8) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_f1_score(internal, "any", "any") FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_f1_score(internal, "any", "any", text) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_f1_score(internal, "any", "any", text, float8) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_confusion(internal, "any", "any") FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_confusion(internal, "any", "any", float8) FROM PUBLIC;

-- The share of rows predicted positive that are: of two classes, or the average ('macro', 'weighted', 'micro') of all.
CREATE AGGREGATE tuskml.precision_score(label float8, predicted float8) (
    SFUNC = tuskml._tuskml_precision_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.precision_score(label boolean, predicted float8) (
    SFUNC = tuskml._tuskml_precision_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.precision_score(label float8, predicted boolean) (
    SFUNC = tuskml._tuskml_precision_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.precision_score(label boolean, predicted boolean) (
    SFUNC = tuskml._tuskml_precision_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.precision_score(label text, predicted text) (
    SFUNC = tuskml._tuskml_precision_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.precision_score(label float8, predicted float8, average text) (
    SFUNC = tuskml._tuskml_precision_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.precision_score(label float8, predicted float8, average text, weight float8) (
    SFUNC = tuskml._tuskml_precision_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.precision_score(label boolean, predicted float8, average text) (
    SFUNC = tuskml._tuskml_precision_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.precision_score(label boolean, predicted float8, average text, weight float8) (
    SFUNC = tuskml._tuskml_precision_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.precision_score(label float8, predicted boolean, average text) (
    SFUNC = tuskml._tuskml_precision_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.precision_score(label float8, predicted boolean, average text, weight float8) (
    SFUNC = tuskml._tuskml_precision_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.precision_score(label boolean, predicted boolean, average text) (
    SFUNC = tuskml._tuskml_precision_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.precision_score(label boolean, predicted boolean, average text, weight float8) (
    SFUNC = tuskml._tuskml_precision_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.precision_score(label text, predicted text, average text) (
    SFUNC = tuskml._tuskml_precision_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.precision_score(label text, predicted text, average text, weight float8) (
    SFUNC = tuskml._tuskml_precision_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);

-- The share of positive rows that are predicted so: of two classes, or the average of all.
CREATE AGGREGATE tuskml.recall_score(label float8, predicted float8) (
    SFUNC = tuskml._tuskml_recall_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.recall_score(label boolean, predicted float8) (
    SFUNC = tuskml._tuskml_recall_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.recall_score(label float8, predicted boolean) (
    SFUNC = tuskml._tuskml_recall_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.recall_score(label boolean, predicted boolean) (
    SFUNC = tuskml._tuskml_recall_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.recall_score(label text, predicted text) (
    SFUNC = tuskml._tuskml_recall_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.recall_score(label float8, predicted float8, average text) (
    SFUNC = tuskml._tuskml_recall_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.recall_score(label float8, predicted float8, average text, weight float8) (
    SFUNC = tuskml._tuskml_recall_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.recall_score(label boolean, predicted float8, average text) (
    SFUNC = tuskml._tuskml_recall_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.recall_score(label boolean, predicted float8, average text, weight float8) (
    SFUNC = tuskml._tuskml_recall_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.recall_score(label float8, predicted boolean, average text) (
    SFUNC = tuskml._tuskml_recall_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.recall_score(label float8, predicted boolean, average text, weight float8) (
    SFUNC = tuskml._tuskml_recall_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.recall_score(label boolean, predicted boolean, average text) (
    SFUNC = tuskml._tuskml_recall_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.recall_score(label boolean, predicted boolean, average text, weight float8) (
    SFUNC = tuskml._tuskml_recall_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.recall_score(label text, predicted text, average text) (
    SFUNC = tuskml._tuskml_recall_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.recall_score(label text, predicted text, average text, weight float8) (
    SFUNC = tuskml._tuskml_recall_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);

-- The harmonic mean of precision and recall: of two classes, or the average of all.
CREATE AGGREGATE tuskml.f1_score(label float8, predicted float8) (
    SFUNC = tuskml._tuskml_f1_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.f1_score(label boolean, predicted float8) (
    SFUNC = tuskml._tuskml_f1_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.f1_score(label float8, predicted boolean) (
    SFUNC = tuskml._tuskml_f1_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.f1_score(label boolean, predicted boolean) (
    SFUNC = tuskml._tuskml_f1_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.f1_score(label text, predicted text) (
    SFUNC = tuskml._tuskml_f1_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.f1_score(label float8, predicted float8, average text) (
    SFUNC = tuskml._tuskml_f1_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.f1_score(label float8, predicted float8, average text, weight float8) (
    SFUNC = tuskml._tuskml_f1_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.f1_score(label boolean, predicted float8, average text) (
    SFUNC = tuskml._tuskml_f1_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.f1_score(label boolean, predicted float8, average text, weight float8) (
    SFUNC = tuskml._tuskml_f1_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.f1_score(label float8, predicted boolean, average text) (
    SFUNC = tuskml._tuskml_f1_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.f1_score(label float8, predicted boolean, average text, weight float8) (
    SFUNC = tuskml._tuskml_f1_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.f1_score(label boolean, predicted boolean, average text) (
    SFUNC = tuskml._tuskml_f1_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.f1_score(label boolean, predicted boolean, average text, weight float8) (
    SFUNC = tuskml._tuskml_f1_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.f1_score(label text, predicted text, average text) (
    SFUNC = tuskml._tuskml_f1_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.f1_score(label text, predicted text, average text, weight float8) (
    SFUNC = tuskml._tuskml_f1_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);

-- How often each label is predicted as each class, as an array of rows.
CREATE AGGREGATE tuskml.confusion(label float8, predicted float8) (
    SFUNC = tuskml._tuskml_confusion, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_confusion_rows,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.confusion(label float8, predicted float8, weight float8) (
    SFUNC = tuskml._tuskml_confusion, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_confusion_weighted,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.confusion(label boolean, predicted float8) (
    SFUNC = tuskml._tuskml_confusion, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_confusion_rows,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.confusion(label boolean, predicted float8, weight float8) (
    SFUNC = tuskml._tuskml_confusion, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_confusion_weighted,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.confusion(label float8, predicted boolean) (
    SFUNC = tuskml._tuskml_confusion, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_confusion_rows,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.confusion(label float8, predicted boolean, weight float8) (
    SFUNC = tuskml._tuskml_confusion, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_confusion_weighted,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.confusion(label boolean, predicted boolean) (
    SFUNC = tuskml._tuskml_confusion, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_confusion_rows,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.confusion(label boolean, predicted boolean, weight float8) (
    SFUNC = tuskml._tuskml_confusion, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_confusion_weighted,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.confusion(label text, predicted text) (
    SFUNC = tuskml._tuskml_confusion, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_confusion_rows,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.confusion(label text, predicted text, weight float8) (
    SFUNC = tuskml._tuskml_confusion, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_confusion_weighted,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
