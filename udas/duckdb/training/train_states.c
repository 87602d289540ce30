/* The states of the aggregates that pass rows to the trainer, and the checks on them. */
#include <stdio.h>

#include "interrupt.h"
#include "train_model.h"

void refuse(duckdb_function_info info, const char *sentence) {
    char text[1200];
    snprintf(text, sizeof text, "%s: %s", tusk_request_name(overload_of(info)->request), sentence);
    duckdb_aggregate_function_set_error(info, text);
}

void refuse_fault(duckdb_function_info info, const tusk_fault *fault) {
    char sentence[512];
    tusk_fault_message(fault, sentence, sizeof sentence);
    refuse(info, sentence);
}

idx_t state_size(duckdb_function_info info) {
    (void)info;
    return sizeof(train_state);
}

void state_init(duckdb_function_info info, duckdb_aggregate_state state) {
    (void)info;
    *(train_state *)state = (train_state){0};
}

/* Rejects states of a statement that is over. After a failure, every thread of the statement
 * reports the same sentence, because DuckDB shows the one that it receives first. */
static bool may_go_on(duckdb_function_info info, const run *r) {
    const era *e = r->era;
    bool cancelled = e->born != cancels_so_far();
    if (!cancelled && !e->over)
        return true;
    refuse(info, cancelled || !e->why[0] ? tusk_interrupted(overload_of(info)->request) : e->why);
    return false;
}

run *run_of_states(duckdb_function_info info, duckdb_aggregate_state *states, idx_t n,
                   bool *refused) {
    run *found = NULL, *last = NULL;
    *refused = false;
    for (idx_t i = 0; i < n && !*refused; i++) {
        if (i + AHEAD < n) {
            __builtin_prefetch(&((const train_state *)states[i + AHEAD])->block, 1);
            __builtin_prefetch(&((const train_state *)states[i + AHEAD])->run, 1);
        }
        run *r = ((const train_state *)states[i])->run;
        if (!r || r == last)
            continue;
        *refused = !may_go_on(info, r);
        if (found)
            run_join(found, r);
        else
            found = r;
        last = r;
    }
    return found;
}

static void drop(train_state *s) {
    if (!s->run || !s->run->era->over)
        tusk_block_free(&s->block);
    tusk_remarks_free(&s->remarks);
    if (s->spec)
        spec_release(s->spec);
    if (s->run)
        run_drop_state(s->run);
    *s = (train_state){0};
}

void drop_states(duckdb_aggregate_state *states, idx_t n) {
    for (idx_t i = 0; i < n; i++)
        drop((train_state *)states[i]);
}

void state_destroy(duckdb_aggregate_state *states, idx_t n) {
    packing_ends();
    eras *all = NULL;
    for (idx_t i = 0; i < n && !all; i++) {
        const train_state *s = (const train_state *)states[i];
        all = s->run ? s->run->era->all : NULL;
    }
    if (all)
        eras_enter(all);
    drop_states(states, n);
    if (all)
        eras_leave(all);
}

static void splice(duckdb_function_info info, duckdb_aggregate_state *sources,
                   duckdb_aggregate_state *targets, idx_t n) {
    tusk_fault fault;
    for (idx_t i = 0; i < n; i++) {
        train_state *source = (train_state *)sources[i], *target = (train_state *)targets[i];
        if (source->spec && !adopt(info, target, source->spec, source->run))
            return;
        tusk_remarks_splice(&target->remarks, &source->remarks);
        enum tusk_invalid invalid = source->spec ? source->spec->invalid : TUSK_INVALID_ERROR;
        tusk_memory *memory = target->run ? target->run->era->memory : NULL;
        if (tusk_block_splice(memory, &target->block, &source->block, invalid, &fault)) {
            refuse_fault(info, &fault);
            return;
        }
    }
}

void combine(duckdb_function_info info, duckdb_aggregate_state *sources,
             duckdb_aggregate_state *targets, idx_t n) {
    eras *all = overload_of(info)->database->eras;
    eras_enter(all);
    bool refused, too;
    run *from = run_of_states(info, sources, n, &refused),
        *to = run_of_states(info, targets, n, &too);
    if (from && to)
        run_join(from, to);
    if (!refused && !too)
        splice(info, sources, targets, n);
    eras_leave(all);
}
