-- Metrics that count labels and predicted classes: text, numbers or booleans.
CREATE TYPE @extschema@.tuskml_confusion_cell AS (label text, predicted text, n bigint);
CREATE TYPE @extschema@.tuskml_weighted_confusion_cell AS (label text, predicted text, n bigint, weight float8);

CREATE FUNCTION tuskml._tuskml_classes_number(internal) RETURNS float8
AS 'MODULE_PATHNAME', 'tuskml_classes_number' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_confusion_{1:rows|weighted}(internal) RETURNS tuskml_{1:|weighted_}confusion_cell[]
AS 'MODULE_PATHNAME', 'tuskml_classes_table' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_classes_{1:combine|serialize|deserialize}({1:internal, internal|internal|bytea, internal})
RETURNS {1:internal|bytea|internal}
AS 'MODULE_PATHNAME', 'tuskml_classes_{1}' LANGUAGE C IMMUTABLE {1:|STRICT |STRICT }PARALLEL SAFE;

-- The transitions.
CREATE FUNCTION tuskml._tuskml_{1:precision|recall|f1}_score(internal, "any", "any"{|, text|, text, float8}) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_{1}_score' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_confusion(internal, "any", "any"{|, float8}) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_confusion' LANGUAGE C IMMUTABLE PARALLEL SAFE;

-- An aggregate needs these rights of its owner only.
REVOKE ALL ON FUNCTION tuskml._tuskml_{classes_number|confusion_rows|confusion_weighted|classes_serialize}(internal) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_classes_{1:combine|deserialize}({1:internal|bytea}, internal) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_{precision|recall|f1}_score(internal, "any", "any"{|, text|, text, float8}) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_confusion(internal, "any", "any"{|, float8}) FROM PUBLIC;

-- The share of rows predicted positive that are, the share of positive rows that are predicted so, and the harmonic mean of
-- both: of two classes, or the average ('macro', 'weighted', 'micro') of all.
CREATE AGGREGATE tuskml.{2:precision|recall|f1}_score(label {1:float8|boolean|float8|boolean|text}, predicted {1:float8|float8|boolean|boolean|text}{
    |, average text|, average text, weight float8}) (
    SFUNC = tuskml._tuskml_{2}_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);

-- How often each label is predicted as each class, as an array of rows.
CREATE AGGREGATE tuskml.confusion(label {1:float8|boolean|float8|boolean|text}, predicted {1:float8|float8|boolean|boolean|text}{2:
    |, weight float8}) (
    SFUNC = tuskml._tuskml_confusion, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_confusion_{2:rows|weighted},
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);
