/* Entry point of LOAD 'tuskml.duckdb_extension': registers every function in the database that
 * loads it. */
#include "database.h"

#include <pthread.h>
#include <stdlib.h>

#include "../../kvstore/mapped/sealed_cache.h"
#include "features/numberings.h"
#include "hosting/python.h"
#include "models/plan_pool.h"
#include "training/eras.h"
#include "training/specs.h"

TUSK_EXPORT const char *tusk_version(void) {
    return TUSKML_VERSION;
}

static _Atomic int forks;

static void count_fork(void) {
    atomic_fetch_add(&forks, 1);
}

int forks_so_far(void) {
    return atomic_load_explicit(&forks, memory_order_relaxed);
}

static void watch_forks(void) {
    pthread_atfork(NULL, NULL, count_fork);
}

static database *database_new(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    database *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->memory = tusk_memory_new();
    d->specs = spec_table_new();
    d->models = sealed_cache_new();
    d->plans = plan_pool_new();
    d->numberings = numberings_new();
    d->eras = d->memory ? eras_new(d->memory) : NULL;
    d->references = 1;
    d->process = forks_so_far();
    return d;
}

database *database_retain(database *d) {
    __atomic_add_fetch(&d->references, 1, __ATOMIC_RELAXED);
    return d;
}

void database_release(void *p) {
    database *d = p;
    if (__atomic_sub_fetch(&d->references, 1, __ATOMIC_ACQ_REL))
        return;
    eras_free(d->eras);
    tusk_memory_free(d->memory);
    spec_table_free(d->specs);
    store_root_free(d);
    sealed_cache_free(d->models);
    plan_pool_free(d->plans);
    numberings_free(d->numberings);
    free(d);
}

const char *spelled(const char *name, bool own, char room[SPELLED]) {
    snprintf(room, SPELLED, "%s%s", own ? "tuskml_" : "", name);
    return room;
}

DUCKDB_EXTENSION_ENTRYPOINT(duckdb_connection connection, duckdb_extension_info info,
                            struct duckdb_extension_access *access) {
    // #lizard forgives the one long chain of "and"
    database *d = database_new();
    bool done = d && d->memory && d->specs && d->eras && d->models && d->plans &&
                store_root_default(d) && read_loaded(connection, d) &&
                (!V1_NEEDED || (d->v1 = v1_learn(connection))) &&
                register_train_model(connection, d) && register_read_model(connection, d) &&
                register_partition(connection, d) && register_rounds(connection, d) &&
                register_predict(connection, d) && register_marginal_effects(connection, d) &&
                register_drift(connection, d) && register_metrics(connection, d) &&
                register_rolling(connection, d) && register_hash_features(connection) &&
                register_distribution(connection) && register_class_place(connection) &&
                register_settings(connection, d) && register_store_root(connection, d) &&
                register_summary(connection) && register_sparse_ids(connection) &&
                register_sparse(connection) && register_payload(connection) &&
                register_tree_numbers(connection) && register_covariances(connection) &&
                register_topics(connection) && register_coherence(connection) &&
                register_recommend(connection, d) && register_activity(connection, d) &&
                register_cancel(connection, d) && create_macros(connection);
    if (d)
        database_release(d);
    if (!done)
        access->set_error(info, "tuskml: DuckDB refused one of its functions");
    return done;
}
