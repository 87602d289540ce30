/* feature_frequencies and partition_model: pack rows of feature ids into blocks, and return the
 * answers. */
#include "groups.h"
#include "trainer.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

PGDLLEXPORT void tusk_emit_frequencies(tusk_batch *batch, int64_t group,
                                       const tusk_frequencies *found);
PGDLLEXPORT void tusk_emit_partitioning(tusk_batch *batch, int64_t group,
                                        const tusk_partitioning *made);

enum argument { A_STATE, A_INDICES, A_OPTIONS };

/* --- rows --- */

static collector *collector_of(FunctionCallInfo fcinfo) {
    collector *c = fcinfo->flinfo->fn_extra;
    if (!c) {
        c = MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, sizeof *c);
        collector_init(c, fcinfo);
        fcinfo->flinfo->fn_extra = c;
    }
    return c;
}

static void adopt_options(FunctionCallInfo fcinfo, collector *c, train_state *s) {
    bool given = PG_NARGS() > A_OPTIONS && !PG_ARGISNULL(A_OPTIONS);
    text *options = given ? PG_GETARG_TEXT_PP(A_OPTIONS) : NULL;
    group_adopt(c, s, "", 0, given ? VARDATA_ANY(options) : "",
                given ? VARSIZE_ANY_EXHDR(options) : 0);
}

static void check_list(const collector *c, const ArrayType *a) {
    Oid type = ARR_ELEMTYPE(a);
    if (type != INT2OID && type != INT4OID && type != INT8OID)
        ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
                        errmsg("%s: indices is %s[], expected an array of integer or bigint",
                               c->name, format_type_be(type))));
    if (ARR_NDIM(a) > 1)
        ereport(ERROR, (errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
                        errmsg("%s: indices has %d dimensions, expected a list of numbers",
                               c->name, ARR_NDIM(a))));
}

static const int32 *widened(const int16 *items, int n) {
    int32 *wide = palloc(Max(1, n) * sizeof *wide);
    for (int i = 0; i < n; i++)
        wide[i] = items[i];
    return wide;
}

static void append(const collector *c, train_state *s, const ArrayType *a) {
    int n = ARR_NDIM(a) ? ARR_DIMS(a)[0] : 0;
    const void *ids = ARR_DATA_PTR(a);
    if (ARR_ELEMTYPE(a) == INT2OID)
        ids = widened(ids, n);
    tusk_fault fault;
    tusk_entries row = {.wide = ARR_ELEMTYPE(a) == INT8OID, .index = ids, .n = n};
    if (tusk_append_ids(c->memory, &s->block, &row, &fault))
        refuse_fault(c->name, &fault);
}

PG_FUNCTION_INFO_V1(tuskml_collect_ids);
Datum tuskml_collect_ids(PG_FUNCTION_ARGS) {
    MemoryContext context = aggregate_context(fcinfo);
    collector *c = collector_of(fcinfo);
    train_state *s =
        PG_ARGISNULL(A_STATE) ? group_new(c, context) : (train_state *)PG_GETARG_POINTER(A_STATE);
    adopt_options(fcinfo, c, s);
    ArrayType *a = PG_ARGISNULL(A_INDICES) ? NULL : PG_GETARG_ARRAYTYPE_P(A_INDICES);
    if (a)
        check_list(c, a);
    if (!a || (ARR_HASNULL(a) && array_contains_nulls(a)))
        s->block.n_skipped++;
    else
        append(c, s, a);
    PG_RETURN_POINTER(s);
}

/* --- answers --- */

static void check_fields(TupleDesc type, const char *name, int fields) {
    if (type->natts != fields)
        ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
                        errmsg("%s has %d fields, expected %d: ALTER EXTENSION tuskml UPDATE",
                               name, type->natts, fields)));
}

static Datum frequencies_datum(TupleDesc type, const void *answer) {
    const tusk_frequencies *f = answer;
    check_fields(type, "tuskml_frequency", TUSK_FREQUENCY_FIELDS);
    MemoryContext scratch =
        AllocSetContextCreate(CurrentMemoryContext, "tuskml frequencies", ALLOCSET_DEFAULT_SIZES);
    MemoryContext before = MemoryContextSwitchTo(scratch);
    Datum *items = MemoryContextAllocHuge(scratch, Max(1, f->n) * sizeof *items);
    bool nulls[TUSK_FREQUENCY_FIELDS] = {false};
    for (int64 i = 0; i < f->n; i++) {
        Datum fields[] = {Int64GetDatum(f->feature[i]), Int64GetDatum(f->estimate[i]),
                          Int64GetDatum(f->lower[i]), Int64GetDatum(f->upper[i])};
        items[i] = HeapTupleGetDatum(heap_form_tuple(type, fields, nulls));
    }
    MemoryContextSwitchTo(before);
    ArrayType *a = construct_array(items, (int)f->n, type->tdtypeid, -1, false, TYPALIGN_DOUBLE);
    MemoryContextDelete(scratch);
    return PointerGetDatum(a);
}

static ArrayType *bigints(const int64_t *numbers, int n) {
    Datum *items = palloc(Max(1, n) * sizeof *items);
    for (int i = 0; i < n; i++)
        items[i] = Int64GetDatum(numbers[i]);
    return construct_array(items, n, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE);
}

static Datum partitioning_datum(TupleDesc type, const void *answer) {
    const tusk_partitioning *p = answer;
    check_fields(type, "tuskml_partitioning", PARTITIONING_FIELDS);
    bool nulls[PARTITIONING_FIELDS] = {false};
    Datum fields[PARTITIONING_FIELDS] = {
        [P_FEATURES] = Int64GetDatum(p->features),
        [P_PARTITIONS] = Int64GetDatum(p->partitions),
        [P_BLOCK_SIZES] = PointerGetDatum(bigints(p->block_sizes, (int)p->n_block_sizes)),
        [P_REQUESTS_BEFORE] = Float8GetDatum(p->requests_before),
        [P_REQUESTS_AFTER] = Float8GetDatum(p->requests_after),
        [P_SAVED] = Float8GetDatum(p->saved),
        [P_ROWS_SEEN] = Int64GetDatum(p->rows_seen),
        [P_ROWS_SKIPPED] = Int64GetDatum(p->rows_skipped),
        [P_ROWS_SAMPLED] = Int64GetDatum(p->rows_sampled),
        [P_EXPLANATION] = CStringGetTextDatum(p->explanation),
        [P_INDEX_MAP] = CStringGetTextDatum(p->index_map),
    };
    return HeapTupleGetDatum(heap_form_tuple(type, fields, nulls));
}

void tusk_emit_frequencies(tusk_batch *batch, int64_t group, const tusk_frequencies *found) {
    emit_made(batch, group, frequencies_datum, found);
}

void tusk_emit_partitioning(tusk_batch *batch, int64_t group, const tusk_partitioning *made) {
    emit_made(batch, group, partitioning_datum, made);
}

PG_FUNCTION_INFO_V1(tuskml_frequencies);
Datum tuskml_frequencies(PG_FUNCTION_ARGS) {
    return finish_group(fcinfo, TUSK_FREQUENCIES);
}

PG_FUNCTION_INFO_V1(tuskml_partition);
Datum tuskml_partition(PG_FUNCTION_ARGS) {
    return finish_group(fcinfo, TUSK_PARTITION);
}
