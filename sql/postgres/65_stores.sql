-- Stored models belong to the role that trained them, in the database where it did: its members read them, warm-start
-- from them, and nobody else, but for those whom the owner lets: 'public' is all. Whether another's store is there is
-- not told. A grant is a file beside the models: no ROLLBACK undoes it, and pg_dump does not keep it.
CREATE FUNCTION grant_store(store text, role text) RETURNS void
AS 'MODULE_PATHNAME', 'tuskml_grant_store' LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION grant_store(text, text) IS 'Lets a role read the models of a store of one''s own';
CREATE FUNCTION revoke_store(store text, role text) RETURNS void
AS 'MODULE_PATHNAME', 'tuskml_revoke_store' LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION revoke_store(text, text) IS 'Takes back what grant_store gave';
