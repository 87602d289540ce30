-- The registry: versions of models by name and group, one of them deployed per group. Created on request.
CREATE SCHEMA IF NOT EXISTS tuskml;

-- Times are UTC.
CREATE TABLE IF NOT EXISTS tuskml.models (
    name VARCHAR NOT NULL CHECK (name <> ''),
    group_key VARCHAR NOT NULL DEFAULT '',
    version INTEGER NOT NULL CHECK (version > 0),
    created TIMESTAMP NOT NULL DEFAULT make_timestamp(epoch_us(now())),
    stage VARCHAR NOT NULL DEFAULT 'candidate' CHECK (stage IN ('candidate', 'deployed', 'retired', 'withdrawn')),
    deployed_at TIMESTAMP CHECK ((deployed_at IS NULL) = (stage = 'candidate')),
    task VARCHAR, status VARCHAR, plan VARCHAR, metrics JSON NOT NULL DEFAULT '{}', options JSON, recipe VARCHAR,
    data_fingerprint VARCHAR,
    model STRUCT(
        task VARCHAR, features VARCHAR[], preparation VARCHAR, coef DOUBLE[], intercept DOUBLE, std_err DOUBLE[],
        classes DOUBLE[], class_names VARCHAR[], n_rows BIGINT, n_skipped BIGINT, note VARCHAR, n_features BIGINT,
        loss DOUBLE, history DOUBLE[], iterations BIGINT, converged BOOLEAN, status VARCHAR, plan VARCHAR,
        seconds DOUBLE, options VARCHAR, store VARCHAR, trials VARCHAR, spread DOUBLE[], histogram VARCHAR,
        payload BLOB) NOT NULL,
    PRIMARY KEY (name, group_key, version));

CREATE VIEW IF NOT EXISTS tuskml.deployed AS
SELECT name, group_key, version, created, deployed_at, task, status, plan, metrics, options, recipe, data_fingerprint, model
FROM tuskml.models WHERE stage = 'deployed';
