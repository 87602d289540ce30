/* Functions shared by the metrics' aggregates: rows, states, and results that are tables. */
#include "../features/named.h"
#include "metrics.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/typcache.h"

#include "../../scalars/metrics/metric.h"
#include "../../scalars/metrics/shares.h"

/* --- rows --- */

row_types *types_of(FmgrInfo *site) {
    row_types *t = site->fn_extra;
    if (t)
        return t;
    t = MemoryContextAllocZero(site->fn_mcxt, sizeof *t);
    t->label = get_fn_expr_argtype(site, A_LABEL);
    t->predicted = get_fn_expr_argtype(site, A_PREDICTED);
    t->third = get_fn_expr_argtype(site, A_THIRD);
    t->fourth = get_fn_expr_argtype(site, A_FOURTH);
    site->fn_extra = t;
    return t;
}

bool has_row(FunctionCallInfo fcinfo) {
    return !PG_ARGISNULL(A_LABEL) && !PG_ARGISNULL(A_PREDICTED);
}

bool names_positive(FunctionCallInfo fcinfo) {
    return types_of(fcinfo->flinfo)->third == TEXTOID;
}

/* The positive class in an argument, which seldom changes from row to row. */
static const tusk_positive *positive_at(FunctionCallInfo fcinfo, int argument) {
    row_types *t = types_of(fcinfo->flinfo);
    const text *name = PG_GETARG_TEXT_PP(argument);
    size_t length = VARSIZE_ANY_EXHDR(name);
    if (t->positive.name && t->positive.length == length &&
        !memcmp(t->positive.name, VARDATA_ANY(name), length))
        return &t->positive;
    char *kept = MemoryContextAlloc(fcinfo->flinfo->fn_mcxt, length + 1);
    memcpy(kept, VARDATA_ANY(name), length);
    if (t->positive.name)
        pfree((char *)t->positive.name);
    t->positive = tusk_positive_named(kept, length);
    return &t->positive;
}

double read_class(FunctionCallInfo fcinfo, int argument, Oid type, const char *name) {
    bool rounded = false;
    double x = read_number_noted(PG_GETARG_DATUM(argument), type, &rounded);
    if (rounded)
        refuse_row(name, TUSK_ROUNDED_CLASS);
    return x;
}

bool is_positive(FunctionCallInfo fcinfo, int argument, Oid type, int positive, const char *name) {
    const tusk_positive *p = positive_at(fcinfo, positive);
    Datum value = PG_GETARG_DATUM(argument);
    if (type == TEXTOID) {
        const text *t = DatumGetTextPP(value);
        return VARSIZE_ANY_EXHDR(t) == p->length && !memcmp(VARDATA_ANY(t), p->name, p->length);
    }
    if (is_number_type(number_type(type))) {
        char sentence[TUSK_SENTENCE];
        double x = read_class(fcinfo, argument, number_type(type), name);
        if (!tusk_is_class(x, argument == A_LABEL ? "label" : "predicted", sentence))
            refuse_row(name, sentence);
        return x == p->number;
    }
    Oid base = getBaseType(type);
    FmgrInfo *output = &types_of(fcinfo->flinfo)->outputs[argument - A_LABEL];
    if (!OidIsValid(output->fn_oid)) {
        if (!is_text_type(base))
            ereport(ERROR,
                    (errcode(ERRCODE_DATATYPE_MISMATCH),
                     errmsg("%s: %s is %s, expected a number, a boolean or text", name,
                            argument == A_LABEL ? "label" : "predicted", format_type_be(type))));
        find_output(type, output, fcinfo->flinfo->fn_mcxt);
    }
    const char *other = OutputFunctionCall(output, value);
    size_t length = strlen(other);
    while (base == BPCHAROID && length && other[length - 1] == ' ')
        length--;
    return length == p->length && !memcmp(other, p->name, length);
}

bool read_row(FunctionCallInfo fcinfo, const char *name, double *label, double *predicted) {
    if (!has_row(fcinfo))
        return false;
    const row_types *t = types_of(fcinfo->flinfo);
    if (names_positive(fcinfo)) {
        if (PG_ARGISNULL(A_THIRD))
            return false;
        *label = is_positive(fcinfo, A_LABEL, t->label, A_THIRD, name);
    } else
        *label = read_class(fcinfo, A_LABEL, t->label, name);
    *predicted = read_class(fcinfo, A_PREDICTED, t->predicted, name);
    return true;
}

bool has_argument(FunctionCallInfo fcinfo, int argument) {
    return PG_NARGS() > argument && !PG_ARGISNULL(argument);
}

bool read_weight(FunctionCallInfo fcinfo, int argument, double *weight) {
    *weight = 1;
    if (PG_NARGS() <= argument)
        return true;
    if (PG_ARGISNULL(argument))
        return false;
    *weight = PG_GETARG_FLOAT8(argument);
    return true;
}

void refuse_row(const char *name, const char *sentence) {
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s: %s", name, sentence)));
}

/* --- states --- */

void *state_at(FunctionCallInfo fcinfo, int argument) {
    return PG_ARGISNULL(argument) ? NULL : PG_GETARG_POINTER(argument);
}

Datum give_state(FunctionCallInfo fcinfo, void *state) {
    if (!state)
        PG_RETURN_NULL();
    PG_RETURN_POINTER(state);
}

static void *grow(void *memory, size_t bytes, void *context) {
    return memory ? repalloc_huge(memory, bytes) : MemoryContextAllocHuge(context, bytes);
}

tusk_grow growth_in(MemoryContext context) {
    return (tusk_grow){grow, context};
}

void breathe(void) {
    CHECK_FOR_INTERRUPTS();
}

/* --- tables --- */

struct array_writer {
    const tusk_table *table;
    TupleDesc row;
    Oid type; /* of a row */
    ArrayBuildState *built;
};

array_writer *array_begin(FunctionCallInfo fcinfo, const tusk_table *table) {
    array_writer *w = palloc0(sizeof *w);
    w->table = table;
    w->type = get_element_type(get_func_rettype(fcinfo->flinfo->fn_oid));
    w->row = lookup_rowtype_tupdesc_copy(w->type, -1);
    w->built = initArrayResult(w->type, CurrentMemoryContext, true);
    return w;
}

static Datum datum_of(const tusk_cell *cell, enum tusk_cell_type type) {
    switch (type) {
    case TUSK_NUMBER_CELL:
        return Float8GetDatum(cell->number);
    case TUSK_WHOLE_CELL:
        return Int64GetDatum(cell->whole);
    default:
        return PointerGetDatum(
            cstring_to_text_with_len(cell->words ? cell->words : cell->own, cell->length));
    }
}

static bool put_row(const tusk_row row, void *context) {
    array_writer *w = context;
    Datum values[TUSK_COLUMNS];
    bool nulls[TUSK_COLUMNS];
    CHECK_FOR_INTERRUPTS();
    for (int i = 0; i < w->table->n_columns; i++) {
        nulls[i] = row[i].null;
        values[i] = nulls[i] ? (Datum)0 : datum_of(&row[i], w->table->columns[i].type);
    }
    HeapTuple tuple = heap_form_tuple(w->row, values, nulls);
    accumArrayResult(w->built, HeapTupleGetDatum(tuple), false, w->type, CurrentMemoryContext);
    return true;
}

tusk_writer array_rows(array_writer *w) {
    return (tusk_writer){put_row, w};
}

Datum array_end(array_writer *w) {
    return makeArrayResult(w->built, CurrentMemoryContext);
}
