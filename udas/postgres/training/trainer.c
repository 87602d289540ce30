/* The call of the trainer. C cannot pass pointers to PL/Python, and must not: any caller of
 * that function could forge them. So the batch is stored here while the trainer works on it,
 * and the function, which takes no arguments, gets it by name (groups/contract/backend.py). */
#include "trainer.h"

#include <time.h>

#include "access/htup_details.h"
#include "access/xact.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "optimizer/cost.h"
#include "pgstat.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

#include "../../rowblock/merge.h"
#include "../../rowblock/named.h"
#include "../extension.h"
#include "../python.h"

#define BATCH 8192

PGDLLEXPORT int64 tuskml_batch_bytes(void);
PGDLLEXPORT void tuskml_answered(void);
PGDLLEXPORT void tuskml_tell(const char *text);
PGDLLEXPORT void tuskml_log(const char *text);
PGDLLEXPORT void tusk_emit_models(tusk_batch *batch, const tusk_models *models);
PGDLLEXPORT void tusk_emit_text(tusk_batch *batch, int64_t group, const char *text);

/* A batch that the trainer works on. */
typedef struct work {
    tusk_batch batch;
    const char *name; /* the aggregate's */
    train_state **states;
    group_spec const **unique;
    TupleDesc model;    /* the composite type of the results */
    ErrorData *failure; /* of an emission; raised after Python has returned */
    MemoryContext context;
    int64 room_of_remarks;
    bool answered;
    bool told;
} work;

static work *current;

/* --- called by Python --- */

tusk_batch *tuskml_current_batch(void) {
    return current ? &current->batch : NULL;
}

/* C and Python must agree on the layout of a batch. */
int64 tuskml_batch_bytes(void) {
    return sizeof(tusk_batch);
}

void tuskml_answered(void) {
    if (current)
        current->answered = true;
}

static void keep_failure(work *w) {
    MemoryContextSwitchTo(w->context);
    if (!w->failure)
        w->failure = CopyErrorData();
    FlushErrorState();
}

void keep_batch_failure(void) {
    keep_failure(current);
}

/* Reports a message about the batch. A NOTICE checks for interrupts, and an error must not jump
 * over Python's frames. */
static void say(int level, const char *prefix, const char *text) {
    MemoryContext before = CurrentMemoryContext;
    PG_TRY();
    {
        HOLD_INTERRUPTS();
        ereport(level, (errmsg("%s: %s", prefix, text), errhidestmt(level == LOG_SERVER_ONLY),
                        errhidecontext(level == LOG_SERVER_ONLY)));
        RESUME_INTERRUPTS();
    }
    PG_CATCH();
    {
        keep_failure(current);
    }
    PG_END_TRY();
    MemoryContextSwitchTo(before);
}

void tuskml_tell(const char *text) {
    if (!current)
        return;
    if (tuskml_application_name) {
        current->told = true;
        pgstat_report_appname(text);
    }
    if (tuskml_progress)
        say(NOTICE, current->name, text);
}

/* A line for the server's log only, not for the client. */
void tuskml_log(const char *text) {
    if (current)
        say(LOG_SERVER_ONLY, "tuskml", text);
}

static Datum text_in(MemoryContext context, const char *text) {
    MemoryContext before = MemoryContextSwitchTo(context);
    Datum made = CStringGetTextDatum(text);
    MemoryContextSwitchTo(before);
    return made;
}

void tusk_emit_models(tusk_batch *batch, const tusk_models *models) {
    work *w = batch->context;
    MemoryContext before = CurrentMemoryContext;
    PG_TRY();
    {
        for (int64_t i = 0; i < models->n; i++) {
            train_state *s = w->states[models->group[i]];
            MemoryContextSwitchTo(s->list->context);
            s->result = model_datum(w->model, models, i);
        }
    }
    PG_CATCH();
    {
        keep_failure(w);
    }
    PG_END_TRY();
    MemoryContextSwitchTo(before);
}

void emit_made(tusk_batch *batch, int64_t group, answer_maker *make, const void *answer) {
    work *w = batch->context;
    MemoryContext before = CurrentMemoryContext;
    PG_TRY();
    {
        train_state *s = w->states[group];
        MemoryContextSwitchTo(s->list->context);
        s->result = make(w->model, answer);
    }
    PG_CATCH();
    {
        keep_failure(w);
    }
    PG_END_TRY();
    MemoryContextSwitchTo(before);
}

void tusk_emit_text(tusk_batch *batch, int64_t group, const char *text) {
    work *w = batch->context;
    MemoryContext before = CurrentMemoryContext;
    PG_TRY();
    {
        train_state *s = w->states[group];
        s->result = text_in(s->list->context, text);
    }
    PG_CATCH();
    {
        keep_failure(w);
    }
    PG_END_TRY();
    MemoryContextSwitchTo(before);
}

/* --- the batch --- */

static int32 number_spec(work *w, const group_spec *s) {
    for (int32 i = w->batch.n_specs - 1; i >= 0; i--)
        if (w->unique[i] == s)
            return i;
    w->unique[w->batch.n_specs] = s;
    ((tusk_spec *)w->batch.specs)[w->batch.n_specs] = (tusk_spec){s->task, s->options};
    return w->batch.n_specs++;
}

static void add_remark(work *w, int64 group, const tusk_remark *one) {
    int64 n = w->batch.n_remarks++;
    if (n == w->room_of_remarks) {
        w->room_of_remarks = n ? 2 * n : 64;
        Size size = (Size)w->room_of_remarks * sizeof *one;
        tusk_remark *more = MemoryContextAllocHuge(w->context, size);
        if (n)
            memcpy(more, w->batch.remarks, (Size)n * sizeof *one);
        w->batch.remarks = more;
    }
    tusk_remark *added = (tusk_remark *)w->batch.remarks + n;
    *added = *one;
    added->group = group;
}

/* For a group without rows only task and options are checked. */
static void add_group(work *w, train_state *s) {
    s->done = true;
    int32 spec = number_spec(w, s->spec);
    if (!s->block.n_rows && !s->block.flaw)
        return;
    int64 g = w->batch.n_groups++;
    tusk_block *b = &s->block;
    tusk_merge_rest(w->batch.memory, b);
    ((tusk_group *)w->batch.groups)[g] = tusk_group_of(b);
    ((const char **)w->batch.flaws)[g] = tusk_block_flaw(b);
    for (int32 k = 0; k < s->remarks.n; k++)
        add_remark(w, g, s->remarks.list + k);
    w->batch.labels |= tusk_labels_are(b);
    ((int32 *)w->batch.spec)[g] = spec;
    w->states[g] = s;
}

/* Adds the requested group, and as many of the waiting ones as one batch may hold. */
static void fill(work *w, train_state *asked) {
    group_list *l = asked->list;
    add_group(w, asked);
    for (; l->pending && Max(w->batch.n_groups, w->batch.n_specs) < BATCH;
         l->pending = l->pending->next)
        if (!l->pending->done)
            add_group(w, l->pending);
}

/* As many threads as a parallel query may have processes, but at least 2: a user who switches
 * parallel plans off means the plans, not the training. */
static int32 most_threads(void) {
    int32 workers = Min(max_parallel_workers_per_gather, max_parallel_workers);
    return Max(2, 1 + Min(workers, max_worker_processes));
}

/* The composite type that the final function returns, alone or in an array. */
static Oid row_type(FunctionCallInfo fcinfo) {
    Oid result = get_func_rettype(fcinfo->flinfo->fn_oid), item = get_element_type(result);
    return OidIsValid(item) ? item : result;
}

/* A sorted aggregate has one group at a time; reserving and clearing room for thousands each
 * time would be waste.
 */
static int64 groups_at_most(const train_state *asked) {
    int64 n = 1;
    for (const train_state *s = asked->list->pending; s && n < BATCH; s = s->next)
        n += !s->done;
    return n;
}

/* Start of the statement, in seconds of the monotonic clock. */
static double statement_began(void) {
    struct timespec now;
    TimestampTz since = GetCurrentTimestamp() - GetCurrentStatementStartTimestamp();
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec - 1e-6 * (double)since;
}

static work *work_new(FunctionCallInfo fcinfo, enum tusk_request request, int64 room) {
    work *w = palloc0(sizeof *w);
    w->context = CurrentMemoryContext;
    w->name = tusk_request_name(request);
    w->states = palloc(room * sizeof *w->states);
    w->unique = palloc(room * sizeof *w->unique);
    if (!tusk_answers_text(request))
        w->model = lookup_rowtype_tupdesc_copy(row_type(fcinfo), -1);
    w->batch = (tusk_batch){.groups = palloc(room * sizeof(tusk_group)),
                            .spec = palloc(room * sizeof(int32)),
                            .specs = palloc(room * sizeof(tusk_spec)),
                            .flaws = palloc0(room * sizeof(char *)),
                            .request = (int32)request,
                            .threads = tuskml_threads,
                            .most_threads = most_threads(),
                            .memory = backend_memory(),
                            .context = w,
                            .store_root = backend_own_root(),
                            .unshared = !tuskml_shares,
                            .weight = tuskml_weight,
                            .program = "postgres",
                            .began = statement_began()};
    note_owner();
    return w;
}

static void call_trainer(work *w) {
    work *outer = current;
    current = w;
    PG_TRY();
    {
        call_python("_tuskml_answer", w->name);
    }
    PG_FINALLY();
    {
        current = outer;
        if (w->told)
            pgstat_report_appname(application_name);
    }
    PG_END_TRY();
}

static void check_answer(const work *w) {
    if (w->failure)
        ReThrowError(w->failure);
    bool all = w->answered;
    for (int64 g = 0; all && g < w->batch.n_groups; g++)
        all = w->states[g]->result != 0;
    if (all)
        return;
    CHECK_FOR_INTERRUPTS();
    const char *state = w->batch.sqlstate[0] ? w->batch.sqlstate : "38000";
    ereport(ERROR,
            (errcode(MAKE_SQLSTATE(state[0], state[1], state[2], state[3], state[4])),
             errmsg("%s: %s", w->name,
                    w->batch.error[0] ? w->batch.error : tusk_interrupted(w->batch.request))));
}

void train_groups(FunctionCallInfo fcinfo, train_state *s, enum tusk_request request) {
    MemoryContext own =
        AllocSetContextCreate(CurrentMemoryContext, "tuskml training", ALLOCSET_DEFAULT_SIZES);
    MemoryContext before = MemoryContextSwitchTo(own);
    work *w = work_new(fcinfo, request, groups_at_most(s));
    fill(w, s);
    if (w->batch.n_specs) {
        call_trainer(w);
        check_answer(w);
    }
    for (int64 g = 0; g < w->batch.n_groups; g++)
        state_free(w->states[g]);
    MemoryContextSwitchTo(before);
    MemoryContextDelete(own);
}
