-- Lets a role read the models of a store of one's own; 'public' is all roles. A stored model belongs to the role that
-- trained it, in the database where it did: that role, its members and superusers read it, and whom the owner lets. A
-- grant is a file beside the models: no ROLLBACK undoes it, and pg_dump does not keep it.
CREATE FUNCTION grant_store(store text, role text) RETURNS void
AS 'MODULE_PATHNAME', 'tuskml_grant_store' LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION grant_store(text, text) IS 'Lets a role read the models of a store of one''s own';

-- Takes back what grant_store gave.
CREATE FUNCTION revoke_store(store text, role text) RETURNS void
AS 'MODULE_PATHNAME', 'tuskml_revoke_store' LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION revoke_store(text, text) IS 'Takes back what grant_store gave';
