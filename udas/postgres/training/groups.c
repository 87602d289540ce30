#include "groups.h"
#include "../../rowblock/merge.h"

#include "access/parallel.h"
#include "nodes/primnodes.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "../extension.h"

/* --- the function that is called --- */

void collector_init(collector *c, FunctionCallInfo fcinfo) {
    Aggref *aggregate = AggGetAggref(fcinfo);
    c->context = fcinfo->flinfo->fn_mcxt;
    const char *name = aggregate ? get_func_name(aggregate->aggfnoid) : NULL;
    /* The name found belongs to the caller and lives only as long as one row. */
    c->name = name ? MemoryContextStrdup(c->context, name) : "train_model";
    c->memory = backend_memory();
    c->told = GetCurrentTimestamp();
    hold_extension(fcinfo->flinfo->fn_oid, c->name);
}

/* --- lists --- */

void state_free(train_state *s) {
    tusk_block_free(&s->block);
    tusk_remarks_free(&s->remarks);
}

static void list_reset(void *argument) {
    group_list *l = argument;
    for (train_state *s = l->first; s; s = s->next)
        state_free(s);
    l->first = l->last = l->pending = NULL;
    l->context = NULL;
}

static group_list *list_new(collector *c) {
    group_list *l = c->lists;
    while (l && l->context)
        l = l->next;
    if (l)
        return l;
    l = MemoryContextAllocZero(c->context, sizeof *l);
    l->next = c->lists;
    c->lists = l;
    return l;
}

static group_list *list_of(collector *c, MemoryContext context) {
    if (c->current && c->current->context == context)
        return c->current;
    group_list *l = c->lists;
    while (l && l->context != context)
        l = l->next;
    if (!l) {
        l = list_new(c);
        l->context = context;
        l->on_reset = (MemoryContextCallback){.func = list_reset, .arg = l};
        MemoryContextRegisterResetCallback(context, &l->on_reset);
    }
    c->current = l;
    return l;
}

train_state *group_new(collector *c, MemoryContext context) {
    group_list *l = list_of(c, context);
    train_state *s = MemoryContextAllocZero(context, sizeof *s);
    s->list = l;
    if (l->last)
        l->last->next = s;
    else
        l->first = l->pending = s;
    l->last = s;
    return s;
}

/* --- task and options --- */

static bool is_spec(const group_spec *s, const char *task, int task_length, const char *options,
                    int options_length) {
    return s->task_length == task_length && s->options_length == options_length &&
           memcmp(s->task, task, task_length) == 0 &&
           memcmp(s->options, options, options_length) == 0;
}

static char *copy_of(MemoryContext context, const char *text, int length) {
    char *copy = MemoryContextAlloc(context, (Size)length + 1);
    memcpy(copy, text, length);
    copy[length] = 0;
    return copy;
}

static group_spec *spec_of(collector *c, const char *task, int task_length, const char *options,
                           int options_length) {
    group_spec *s = c->specs;
    while (s && !is_spec(s, task, task_length, options, options_length))
        s = s->next;
    if (s)
        return s;
    s = MemoryContextAllocZero(c->context, sizeof *s);
    s->task = copy_of(c->context, task, task_length);
    s->options = copy_of(c->context, options, options_length);
    s->task_length = task_length;
    s->options_length = options_length;
    s->ordered = tusk_orders_labels((tusk_text){s->task, (size_t)task_length});
    s->labelled = tusk_takes_labels((tusk_text){s->task, (size_t)task_length});
    s->documents = tusk_takes_documents((tusk_text){s->task, (size_t)task_length});
    s->ids = tusk_takes_ids((tusk_text){s->task, (size_t)task_length});
    s->gaps = tusk_kept_gaps((tusk_text){s->task, (size_t)task_length},
                             (tusk_text){s->options, (size_t)options_length});
    s->invalid = tusk_invalid_rows((tusk_text){s->options, (size_t)options_length});
    s->merges = tusk_merges_rows((tusk_text){s->task, (size_t)task_length},
                                 (tusk_text){s->options, (size_t)options_length});
    s->next = c->specs;
    c->specs = s;
    return s;
}

#define TELL_ROWS 8192
#define TELL_MS 1000

/* At most once a second, like the training's iterations (groups/contract/backend.py). In a
 * parallel query, the leader reports its own rows. */
static void count_row(collector *c) {
    if (++c->rows % TELL_ROWS || !tuskml_progress || IsParallelWorker())
        return;
    TimestampTz now = GetCurrentTimestamp();
    if (!TimestampDifferenceExceeds(c->told, now, TELL_MS))
        return;
    c->told = now;
    ereport(NOTICE, (errmsg("%s: " INT64_FORMAT " rows read", c->name, c->rows)));
}

void group_adopt(collector *c, train_state *s, const char *task, int task_length,
                 const char *options, int options_length) {
    count_row(c);
    if (!s->spec) {
        s->spec = spec_of(c, task, task_length, options, options_length);
        s->block.extras = s->spec->merges ? TUSK_MAY_MERGE : 0;
    } else if (!is_spec(s->spec, task, task_length, options, options_length))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("%s: %s must be the same in all rows of a group", c->name,
                               task_length ? "task and options" : "options")));
}

/* --- invalid rows --- */

static int state_of_fault(int code) {
    switch (code) {
    case TUSK_NO_MEMORY:
        return ERRCODE_OUT_OF_MEMORY;
    case TUSK_DISK_FULL:
        return temp_file_limit < 0 ? ERRCODE_DISK_FULL : ERRCODE_CONFIGURATION_LIMIT_EXCEEDED;
    case TUSK_RAGGED:
    case TUSK_EMPTY:
    case TUSK_LENGTHS_DIFFER:
        return ERRCODE_ARRAY_SUBSCRIPT_ERROR;
    case TUSK_TOO_WIDE:
        return ERRCODE_PROGRAM_LIMIT_EXCEEDED;
    default:
        return ERRCODE_INVALID_PARAMETER_VALUE;
    }
}

void refuse_fault(const char *name, const tusk_fault *fault) {
    char sentence[512];
    if (fault->code == TUSK_NO_MEMORY || fault->code == TUSK_DISK_FULL)
        snprintf(sentence, sizeof sentence,
                 "no room for row %lld of the group: beyond tuskml.memory_limit rows go to "
                 "temporary files, which the disk or temp_file_limit does not allow",
                 (long long)fault->row);
    else
        tusk_fault_message(fault, sentence, sizeof sentence);
    ereport(ERROR, (errcode(state_of_fault(fault->code)), errmsg("%s: %s", name, sentence)));
}
