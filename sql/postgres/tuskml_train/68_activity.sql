-- The trainings that run on the host, the oldest first, as far as the server's account sees them. session: the process, as in
-- pg_stat_activity; training: its number there; share: threads that a training has in the mean, of those that it asks for; core_seconds: threads that it has had, times
-- seconds; rho: its estimated time over that with an equal part of the cores.
CREATE FUNCTION tuskml.tuskml_activity()
RETURNS TABLE (session bigint, training bigint, program text, task text, plan text, n_groups bigint, n_models bigint, share float8, threads bigint,
               weight float8, seconds float8, core_seconds float8, rows_per_second float8, progress float8, estimated_end timestamptz, rho float8, device text)
AS 'MODULE_PATHNAME', 'tuskml_activity' LANGUAGE C VOLATILE PARALLEL RESTRICTED;
