-- Metrics of the k highest scores of a group, such as a user's, or of all without k. Their average over groups is that of the field.
CREATE FUNCTION tuskml._tuskml_{1:ndcg|precision_at_k|recall_at_k|average_precision_at_k}(internal, "any", "any"{|, bigint}) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_{1}' LANGUAGE C IMMUTABLE PARALLEL SAFE;

-- An aggregate needs these rights of its owner only.
REVOKE ALL ON FUNCTION tuskml._tuskml_{ndcg|precision_at_k|recall_at_k|average_precision_at_k}(internal, "any", "any"{|, bigint}) FROM PUBLIC;

-- Normalized discounted cumulative gain, whose labels are gains of 0 or more, and ties share the discounts of their ranks. For
-- labels as for log_loss: the share of positive ones among the k highest scores; the share of the positive ones that are among
-- them; and the mean of the precisions at each of these, over as many as could be there.
CREATE AGGREGATE tuskml.{1:ndcg|precision_at_k|recall_at_k|average_precision_at_k}(label {float8|boolean}, score float8{|, k bigint}) (
    SFUNC = tuskml._tuskml_{1}, STYPE = internal, SSPACE = 1024, FINALFUNC = tuskml._tuskml_scored_number,
    COMBINEFUNC = tuskml._tuskml_scored_combine, SERIALFUNC = tuskml._tuskml_scored_serialize, DESERIALFUNC = tuskml._tuskml_scored_deserialize,
    PARALLEL = SAFE);
