-- The proportions of topics in a document: an array of words, or sparse(ids, counts).
CREATE FUNCTION tuskml.predict_topics(model tuskml_model, tokens {anyarray|tuskml_sparse_real|tuskml_sparse_double}) RETURNS float8[]
AS 'MODULE_PATHNAME', 'tuskml_predict_topics' LANGUAGE C STABLE STRICT PARALLEL SAFE;

-- The most probable words of each topic.
CREATE FUNCTION tuskml.model_topics(model tuskml_model, words integer DEFAULT 10)
RETURNS TABLE (topic integer, rank integer, word text, probability float8)
AS 'MODULE_PATHNAME', 'tuskml_model_topics' LANGUAGE C STABLE PARALLEL SAFE;

-- exp of minus the mean log probability of a token by the topics of the other half of its document, over some documents.
CREATE FUNCTION tuskml._tuskml_perplexity_add(sums float8[], model tuskml_model, tokens {anyarray|tuskml_sparse_real|tuskml_sparse_double})
RETURNS float8[]
AS 'MODULE_PATHNAME', 'tuskml_perplexity_add' LANGUAGE C STABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_perplexity_join(a float8[], b float8[]) RETURNS float8[]
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$ SELECT ARRAY[a[1] + b[1], a[2] + b[2]] $$;
CREATE FUNCTION tuskml._tuskml_perplexity_of(sums float8[]) RETURNS float8
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$ SELECT exp(-sums[1] / nullif(sums[2], 0)) $$;
REVOKE ALL ON FUNCTION tuskml._tuskml_perplexity_add(float8[], tuskml_model, {anyarray|tuskml_sparse_real|tuskml_sparse_double}) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_perplexity_join(float8[], float8[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_perplexity_of(float8[]) FROM PUBLIC;
CREATE AGGREGATE tuskml.perplexity(model tuskml_model, tokens {anyarray|tuskml_sparse_real|tuskml_sparse_double}) (
    SFUNC = tuskml._tuskml_perplexity_add, STYPE = float8[], INITCOND = '{0,0}', FINALFUNC = tuskml._tuskml_perplexity_of,
    COMBINEFUNC = tuskml._tuskml_perplexity_join, PARALLEL = SAFE);

-- How often the best words of topics occur together in documents: 'c_v' or 'u_mass', the mean over topics.
CREATE FUNCTION tuskml._tuskml_coherence_add(state internal, model tuskml_model, tokens {anyarray|tuskml_sparse_real|tuskml_sparse_double}{|, measure text|, measure text, words integer})
RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_coherence_add' LANGUAGE C STABLE;
CREATE FUNCTION tuskml._tuskml_coherence_of(state internal) RETURNS float8
AS 'MODULE_PATHNAME', 'tuskml_coherence_of' LANGUAGE C STABLE;
REVOKE ALL ON FUNCTION tuskml._tuskml_coherence_add(internal, tuskml_model, {anyarray|tuskml_sparse_real|tuskml_sparse_double}{|, text|, text, integer}) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_coherence_of(internal) FROM PUBLIC;
CREATE AGGREGATE tuskml.coherence(model tuskml_model, tokens {anyarray|tuskml_sparse_real|tuskml_sparse_double}{|, measure text|, measure text, words integer}) (
    SFUNC = tuskml._tuskml_coherence_add, STYPE = internal, FINALFUNC = tuskml._tuskml_coherence_of);
