-- What SQL itself can say of models. Temporary: a database file keeps nothing that needs tuskml to open it.

-- Sparse features: ids >= 0 and their values, in any order; repeated ids add up.
CREATE OR REPLACE TEMP MACRO sparse(indices, vals) AS {'indices': indices, 'values': vals};
