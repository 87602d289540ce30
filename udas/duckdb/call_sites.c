/* Learns which places in DuckDB hand updates an array of states, and which hand one.
 *
 * An aggregate of its own is called by queries that have the one or the other. What it is handed
 * is looked at where the system lets it: an array of so many states is none by chance.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
#include <unwind.h>

#include "door.h"

#define NAME "_tusk_states"
#define LEAST_ROWS 16
#define SAMPLES 8

/* What two pointers are aligned to, and what an array of a whole vector is, in every allocator
 * that keeps large pieces apart from small ones (DuckDB's on Linux). */
enum { ANY_ARRAY = 16, LARGE_ARRAY = 64 };

#define DEPTH 16 /* frames up to an update's caller, a sanitizer's included */

/* --- places --- */

typedef struct walk {
    const void *caller, *place;
    bool passed;
    int left;
} walk;

static _Unwind_Reason_Code step(struct _Unwind_Context *frame, void *p) {
    walk *w = p;
    const void *at = (const void *)_Unwind_GetIP(frame);
    if (w->passed)
        w->place = at;
    w->passed = at == w->caller;
    return w->place || --w->left == 0 ? _URC_END_OF_STACK : _URC_NO_REASON;
}

/* Where the update's caller, the adaptor of C functions, was called; NULL: the stack does not say.
 */
static const void *place_above(const void *caller) {
    walk w = {.caller = caller, .left = DEPTH};
    _Unwind_Backtrace(step, &w);
    return w.place;
}

static enum handing known_at(const call_sites *sites, const void *place) {
    for (int i = 0; i < sites->n; i++)
        if (sites->place[i] == place)
            return sites->gives[i];
    return NOT_KNOWN;
}

enum handing handed_by(const call_sites *sites, const void *caller) {
    return sites->n ? known_at(sites, place_above(caller)) : NOT_KNOWN;
}

static void note(call_sites *sites, const void *place, enum handing gives) {
    if (!place || sites->n == MOST_SITES || known_at(sites, place) != NOT_KNOWN)
        return;
    sites->place[sites->n] = place;
    sites->gives[sites->n++] = gives;
}

/* --- what a query hands over --- */

static const struct query {
    const char *sql;
    enum handing gives; /* as far as is known: for systems that let nobody look */
} QUERIES[] = {
    {"SELECT " NAME "(i) OVER () FROM range(64) t(i)", ONE_STATE},
    {"SELECT " NAME "(i ORDER BY -i) FROM range(64) t(i)", ONE_STATE},
    {"SELECT " NAME "(i) FROM range(64) t(i) GROUP BY i % 2", AN_ARRAY},
    {"SELECT " NAME "(i) FILTER (i >= 32) FROM range(64) t(i) GROUP BY i % 2", AN_ARRAY},
    {"SELECT " NAME "(i) OVER (ORDER BY i ROWS 40 PRECEDING) FROM range(64) t(i)", AN_ARRAY},
    {"SELECT " NAME "(i) OVER (ORDER BY i ROWS 40 PRECEDING EXCLUDE TIES) FROM range(64) t(i)",
     AN_ARRAY},
    {"SELECT " NAME "(DISTINCT i) OVER () FROM range(64) t(i)", AN_ARRAY},
};
#define N_QUERIES (int)(sizeof QUERIES / sizeof *QUERIES)

/* The first word of a state of the running query, and of no other's that left its memory behind.
 */
static uint64_t mark(int query) {
    return ~STATE_MARK + (uint64_t)query;
}

/* Reads words where there may be no memory; false where the system lets nobody look. */
static bool look(uint64_t *words, const struct iovec *places, int n, bool *there) {
    struct iovec here = {words, LEAST_ROWS * sizeof *words};
    ssize_t got = process_vm_readv(getpid(), &here, 1, places, (unsigned long)n, 0);
    *there = got == (ssize_t)here.iov_len;
    return got >= 0 || errno == EFAULT;
}

static enum handing seen(duckdb_aggregate_state *states, int query) {
    uint64_t words[LEAST_ROWS];
    struct iovec places[LEAST_ROWS] = {{states, sizeof words}};
    bool there;
    if (!look(words, places, 1, &there))
        return QUERIES[query].gives;
    if (!there)
        return ONE_STATE;
    for (int i = 0; i < LEAST_ROWS; i++)
        places[i] = (struct iovec){(void *)(uintptr_t)words[i], sizeof *words};
    look(words, places, LEAST_ROWS, &there);
    for (int i = 0; i < LEAST_ROWS && there; i++)
        there = words[i] == mark(query);
    return there ? AN_ARRAY : ONE_STATE;
}

static call_sites *sites_of(duckdb_function_info info) {
    return &((door *)duckdb_aggregate_function_get_extra_info(info))->sites;
}

static void update(duckdb_function_info info, duckdb_data_chunk chunk,
                   duckdb_aggregate_state *states) {
    call_sites *sites = sites_of(info);
    int query = atomic_load(&sites->learning);
    if (query >= 0 && duckdb_data_chunk_get_size(chunk) >= LEAST_ROWS)
        note(sites, place_above(CALLER), seen(states, query));
}

/* --- an aggregate that keeps nothing --- */

static idx_t size(duckdb_function_info info) {
    (void)info;
    return sizeof(uint64_t);
}

static void init(duckdb_function_info info, duckdb_aggregate_state state) {
    *(uint64_t *)state = mark(atomic_load(&sites_of(info)->learning));
}

static void combine(duckdb_function_info info, duckdb_aggregate_state *sources,
                    duckdb_aggregate_state *targets, idx_t n) {
    (void)info, (void)sources, (void)targets, (void)n;
}

static void finalize(duckdb_function_info info, duckdb_aggregate_state *states,
                     duckdb_vector result, idx_t n, idx_t offset) {
    (void)info, (void)states;
    memset((int64_t *)duckdb_vector_get_data(result) + offset, 0, n * sizeof(int64_t));
}

static bool register_aggregate(duckdb_connection connection, door *d) {
    duckdb_aggregate_function f = duckdb_create_aggregate_function();
    duckdb_logical_type number = duckdb_create_logical_type(DUCKDB_TYPE_BIGINT);
    duckdb_aggregate_function_set_name(f, NAME);
    duckdb_aggregate_function_add_parameter(f, number);
    duckdb_aggregate_function_set_return_type(f, number);
    duckdb_aggregate_function_set_functions(f, size, init, update, combine, finalize);
    duckdb_aggregate_function_set_extra_info(f, door_retain(d), door_release);
    bool done = duckdb_register_aggregate_function(connection, f) == DuckDBSuccess;
    duckdb_destroy_logical_type(&number);
    duckdb_destroy_aggregate_function(&f);
    return done;
}

/* --- learning --- */

/* Learned from vectors that DuckDB allocates as it does its arrays of states. */
static size_t vector_alignment(void) {
    duckdb_data_chunk chunks[SAMPLES];
    duckdb_logical_type type = duckdb_create_logical_type(DUCKDB_TYPE_BIGINT);
    uintptr_t low_bits = 0;
    for (int i = 0; i < SAMPLES; i++) {
        chunks[i] = duckdb_create_data_chunk(&type, 1);
        duckdb_vector v = duckdb_data_chunk_get_vector(chunks[i], 0);
        low_bits |= (uintptr_t)duckdb_vector_get_data(v);
    }
    for (int i = 0; i < SAMPLES; i++)
        duckdb_destroy_data_chunk(&chunks[i]);
    duckdb_destroy_logical_type(&type);
    return low_bits % LARGE_ARRAY ? ANY_ARRAY : LARGE_ARRAY;
}

static bool learn(duckdb_connection connection, door *d) {
    d->sites.alignment = vector_alignment();
    if (!register_aggregate(connection, d))
        return false;
    for (int i = 0; i < N_QUERIES; i++) {
        duckdb_result result;
        atomic_store(&d->sites.learning, i);
        duckdb_query(connection, QUERIES[i].sql, &result);
        duckdb_destroy_result(&result);
    }
    atomic_store(&d->sites.learning, LEARNT);
    return true;
}

/* Once for each DuckDB in the process. */
bool learn_call_sites(duckdb_connection connection, door *d) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static duckdb_state (*of)(duckdb_connection, const char *, duckdb_result *); /* whose */
    static call_sites learnt;
    if (strncmp(duckdb_library_version(), "v1.", 3) != 0)
        return true;
    pthread_mutex_lock(&lock);
    bool done = true;
    if (of == duckdb_query)
        d->sites = learnt;
    else if ((done = learn(connection, d)) && d->sites.n) {
        learnt = d->sites;
        of = duckdb_query;
    }
    pthread_mutex_unlock(&lock);
    return done;
}
