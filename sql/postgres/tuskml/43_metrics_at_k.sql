-- Metrics of the k highest scores of a group, such as a user's, or of all without k. Their average over groups is that of the field.
CREATE FUNCTION tuskml._tuskml_{1:ndcg|precision_at_k|recall_at_k|average_precision_at_k}(internal, "any", "any"{|, bigint}) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_{1}' LANGUAGE C IMMUTABLE PARALLEL SAFE;

-- An aggregate needs these rights of its owner only.
REVOKE ALL ON FUNCTION tuskml._tuskml_{ndcg|precision_at_k|recall_at_k|average_precision_at_k}(internal, "any", "any"{|, bigint}) FROM PUBLIC;

-- Normalized discounted cumulative gain; labels are gains of 0 or more, and ties share the discounts of their ranks.
CREATE AGGREGATE tuskml.ndcg(label {float8|boolean}, score float8{|, k bigint}) (
    SFUNC = tuskml._tuskml_ndcg, STYPE = internal, SSPACE = 1024, FINALFUNC = tuskml._tuskml_scored_number,
    COMBINEFUNC = tuskml._tuskml_scored_combine, SERIALFUNC = tuskml._tuskml_scored_serialize, DESERIALFUNC = tuskml._tuskml_scored_deserialize,
    PARALLEL = SAFE);

-- The share of positive labels among the k highest scores; labels as for log_loss, here and below.
CREATE AGGREGATE tuskml.precision_at_k(label {float8|boolean}, score float8{|, k bigint}) (
    SFUNC = tuskml._tuskml_precision_at_k, STYPE = internal, SSPACE = 1024, FINALFUNC = tuskml._tuskml_scored_number,
    COMBINEFUNC = tuskml._tuskml_scored_combine, SERIALFUNC = tuskml._tuskml_scored_serialize, DESERIALFUNC = tuskml._tuskml_scored_deserialize,
    PARALLEL = SAFE);

-- The share of the positive labels that are among the k highest scores.
CREATE AGGREGATE tuskml.recall_at_k(label {float8|boolean}, score float8{|, k bigint}) (
    SFUNC = tuskml._tuskml_recall_at_k, STYPE = internal, SSPACE = 1024, FINALFUNC = tuskml._tuskml_scored_number,
    COMBINEFUNC = tuskml._tuskml_scored_combine, SERIALFUNC = tuskml._tuskml_scored_serialize, DESERIALFUNC = tuskml._tuskml_scored_deserialize,
    PARALLEL = SAFE);

-- The mean of the precisions at each positive label among the k highest scores, over as many as could be there.
CREATE AGGREGATE tuskml.average_precision_at_k(label {float8|boolean}, score float8{|, k bigint}) (
    SFUNC = tuskml._tuskml_average_precision_at_k, STYPE = internal, SSPACE = 1024, FINALFUNC = tuskml._tuskml_scored_number,
    COMBINEFUNC = tuskml._tuskml_scored_combine, SERIALFUNC = tuskml._tuskml_scored_serialize, DESERIALFUNC = tuskml._tuskml_scored_deserialize,
    PARALLEL = SAFE);
