#include "emit.h"

#include <math.h>

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "utils/array.h"
#include "utils/builtins.h"

/* A row of tuskml_model while it is made. */
typedef struct fields {
    Datum value[MODEL_FIELDS];
    bool null[MODEL_FIELDS];
} fields;

static void put_text(fields *f, int field, const tusk_strings *s, int64 i) {
    f->null[field] = s->code[i] < 0;
    if (!f->null[field])
        f->value[field] = CStringGetTextDatum(s->pool[s->code[i]]);
}

static void put_double(fields *f, int field, double x) {
    f->null[field] = isnan(x);
    f->value[field] = Float8GetDatum(x);
}

static void put_int(fields *f, int field, int64 x) {
    f->null[field] = false;
    f->value[field] = Int64GetDatum(x);
}

static int count_nan(const double *x, int64 n) {
    int found = 0;
    for (int64 i = 0; i < n; i++)
        found += isnan(x[i]) != 0;
    return found;
}

static ArrayType *array_without_null(const double *x, int64 n) {
    Size size = ARR_OVERHEAD_NONULLS(1) + (Size)n * sizeof(double);
    ArrayType *a = palloc0(size);
    SET_VARSIZE(a, size);
    a->ndim = 1;
    a->elemtype = FLOAT8OID;
    ARR_DIMS(a)[0] = (int)n;
    ARR_LBOUND(a)[0] = 1;
    memcpy(ARR_DATA_PTR(a), x, (Size)n * sizeof(double));
    return a;
}

static ArrayType *array_with_null(const double *x, int64 n) {
    Datum *items = palloc(n * sizeof *items);
    bool *nulls = palloc(n * sizeof *nulls);
    int length = (int)n, lower = 1;
    for (int64 i = 0; i < n; i++) {
        nulls[i] = isnan(x[i]);
        items[i] = Float8GetDatum(x[i]);
    }
    ArrayType *a = construct_md_array(items, nulls, 1, &length, &lower, FLOAT8OID, sizeof(double),
                                      FLOAT8PASSBYVAL, TYPALIGN_DOUBLE);
    pfree(items);
    pfree(nulls);
    return a;
}

/* The row around the list takes some of a value's gigabyte. */
#define MOST_ITEMS ((int64)((MaxAllocSize - (1 << 20)) / sizeof(double)))

static void put_list(fields *f, int field, const tusk_lists *l, int64 i) {
    const double *x = l->values + l->offsets[i];
    int64 n = l->offsets[i + 1] - l->offsets[i];
    if (n > MOST_ITEMS)
        ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY),
                        errmsg("train_model: a list of " INT64_FORMAT " coefficients is more "
                               "memory than the 1 GB that a value may have: expected smaller "
                               "ids, or option 'store', which keeps those that occur",
                               n)));
    f->null[field] = n == 0;
    if (n)
        f->value[field] =
            PointerGetDatum(count_nan(x, n) ? array_with_null(x, n) : array_without_null(x, n));
}

static void free_pointers(const fields *f) {
    static const int by_reference[] = {M_TASK,   M_COEF, M_STD_ERR, M_CLASSES, M_HISTORY,
                                       M_STATUS, M_PLAN, M_OPTIONS, M_STORE};
    for (int k = 0; k < lengthof(by_reference); k++)
        if (!f->null[by_reference[k]])
            pfree(DatumGetPointer(f->value[by_reference[k]]));
}

Datum model_datum(TupleDesc type, const tusk_models *m, int64 i) {
    fields f;
    if (type->natts != MODEL_FIELDS)
        ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
                        errmsg("tuskml_model has %d fields, expected %d: ALTER EXTENSION tuskml "
                               "UPDATE",
                               type->natts, MODEL_FIELDS)));
    put_text(&f, M_TASK, &m->task, i);
    put_list(&f, M_COEF, &m->coef, i);
    put_double(&f, M_INTERCEPT, m->intercept[i]);
    put_list(&f, M_STD_ERR, &m->std_err, i);
    put_list(&f, M_CLASSES, &m->classes, i);
    put_int(&f, M_N_ROWS, m->n_rows[i]);
    put_int(&f, M_N_SKIPPED, m->n_skipped[i]);
    put_int(&f, M_N_FEATURES, m->n_features[i]);
    put_double(&f, M_LOSS, m->loss[i]);
    put_list(&f, M_HISTORY, &m->history, i);
    put_int(&f, M_ITERATIONS, m->iterations[i]);
    f.null[M_CONVERGED] = false;
    f.value[M_CONVERGED] = BoolGetDatum(m->converged[i]);
    put_text(&f, M_STATUS, &m->status, i);
    put_text(&f, M_PLAN, &m->plan, i);
    put_double(&f, M_SECONDS, m->seconds[i]);
    put_text(&f, M_OPTIONS, &m->options, i);
    put_text(&f, M_STORE, &m->store, i);
    HeapTuple tuple = heap_form_tuple(type, f.value, f.null);
    free_pointers(&f);
    return HeapTupleGetDatum(tuple);
}
