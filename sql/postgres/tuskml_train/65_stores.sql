-- Lets a role read the models of one of your stores; 'public' is all roles. A stored model belongs to the role that
-- trained it, in the database where it was trained. That role, its members, superusers and roles with a grant can read it.
-- A grant is a file beside the models: ROLLBACK does not undo it, and pg_dump does not keep it.
CREATE FUNCTION tuskml.grant_store(store text, role text) RETURNS void
AS 'MODULE_PATHNAME', 'tuskml_grant_store' LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION tuskml.grant_store(text, text) IS 'Lets a role read the models of one of your stores';

-- Revokes what grant_store granted.
CREATE FUNCTION tuskml.revoke_store(store text, role text) RETURNS void
AS 'MODULE_PATHNAME', 'tuskml_revoke_store' LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION tuskml.revoke_store(text, text) IS 'Revokes what grant_store granted';
