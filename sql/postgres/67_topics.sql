-- The proportions of topics in a document: an array of words, or sparse(ids, counts).
CREATE FUNCTION predict_topics(model tuskml_model, tokens anyarray) RETURNS float8[]
AS 'MODULE_PATHNAME', 'tuskml_predict_topics' LANGUAGE C STABLE STRICT PARALLEL SAFE;
CREATE FUNCTION predict_topics(model tuskml_model, tokens tuskml_sparse_real) RETURNS float8[]
AS 'MODULE_PATHNAME', 'tuskml_predict_topics' LANGUAGE C STABLE STRICT PARALLEL SAFE;
CREATE FUNCTION predict_topics(model tuskml_model, tokens tuskml_sparse_double) RETURNS float8[]
AS 'MODULE_PATHNAME', 'tuskml_predict_topics' LANGUAGE C STABLE STRICT PARALLEL SAFE;

-- The most probable words of each topic.
CREATE FUNCTION model_topics(model tuskml_model, words integer DEFAULT 10)
RETURNS TABLE (topic integer, rank integer, word text, probability float8)
AS 'MODULE_PATHNAME', 'tuskml_model_topics' LANGUAGE C STABLE PARALLEL SAFE;

-- exp of minus the mean log probability of a token by the topics of the other half of its document, over some documents.
CREATE FUNCTION _tuskml_perplexity_add(sums float8[], model tuskml_model, tokens anyarray) RETURNS float8[]
AS 'MODULE_PATHNAME', 'tuskml_perplexity_add' LANGUAGE C STABLE PARALLEL SAFE;
CREATE FUNCTION _tuskml_perplexity_add(sums float8[], model tuskml_model, tokens tuskml_sparse_real) RETURNS float8[]
AS 'MODULE_PATHNAME', 'tuskml_perplexity_add' LANGUAGE C STABLE PARALLEL SAFE;
CREATE FUNCTION _tuskml_perplexity_add(sums float8[], model tuskml_model, tokens tuskml_sparse_double) RETURNS float8[]
AS 'MODULE_PATHNAME', 'tuskml_perplexity_add' LANGUAGE C STABLE PARALLEL SAFE;
CREATE FUNCTION _tuskml_perplexity_join(a float8[], b float8[]) RETURNS float8[]
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$ SELECT ARRAY[a[1] + b[1], a[2] + b[2]] $$;
CREATE FUNCTION _tuskml_perplexity_of(sums float8[]) RETURNS float8
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$ SELECT exp(-sums[1] / nullif(sums[2], 0)) $$;
CREATE AGGREGATE @extschema@.perplexity(model tuskml_model, tokens anyarray) (
    SFUNC = _tuskml_perplexity_add, STYPE = float8[], INITCOND = '{0,0}', FINALFUNC = _tuskml_perplexity_of,
    COMBINEFUNC = _tuskml_perplexity_join, PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.perplexity(model tuskml_model, tokens tuskml_sparse_real) (
    SFUNC = _tuskml_perplexity_add, STYPE = float8[], INITCOND = '{0,0}', FINALFUNC = _tuskml_perplexity_of,
    COMBINEFUNC = _tuskml_perplexity_join, PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.perplexity(model tuskml_model, tokens tuskml_sparse_double) (
    SFUNC = _tuskml_perplexity_add, STYPE = float8[], INITCOND = '{0,0}', FINALFUNC = _tuskml_perplexity_of,
    COMBINEFUNC = _tuskml_perplexity_join, PARALLEL = SAFE);
