/* The aggregate that compares two predictions of the same rows. */
#include "metrics.h"

#include "access/htup_details.h"
#include "funcapi.h"
#include "utils/builtins.h"

#include "../../scalars/metrics/compare.h"

enum compare_argument { C_STATE, C_LABEL, C_A, C_B, C_METRIC, C_WEIGHT };

/* Reads what all rows have: the state that knows the metric, and the weight. NULL if the row does
 * not count. */
static tusk_comparison *begin_row(FunctionCallInfo fcinfo, double *weight) {
    MemoryContext context = aggregate_context(fcinfo);
    tusk_comparison *c = state_at(fcinfo, C_STATE);
    if (PG_ARGISNULL(C_LABEL) || PG_ARGISNULL(C_A) || PG_ARGISNULL(C_B) ||
        !read_weight(fcinfo, C_WEIGHT, weight))
        return NULL;
    if (!c)
        c = MemoryContextAllocZero(context, sizeof *c);
    char sentence[TUSK_SENTENCE];
    const text *metric =
        PG_ARGISNULL(C_METRIC) ? cstring_to_text("NULL") : PG_GETARG_TEXT_PP(C_METRIC);
    if (!tusk_compare_by(c, VARDATA_ANY(metric), VARSIZE_ANY_EXHDR(metric), sentence))
        refuse_row("compare", sentence);
    return c;
}

static Datum take(tusk_comparison *c, double y, double a, double b, double weight) {
    char sentence[TUSK_SENTENCE];
    if (!tusk_compare_take(c, y, a, b, weight, sentence))
        refuse_row("compare", sentence);
    PG_RETURN_POINTER(c);
}

/* The label and both predictions are numbers or booleans. */
PG_FUNCTION_INFO_V1(tuskml_compare);
Datum tuskml_compare(PG_FUNCTION_ARGS) {
    double weight, numbers[3];
    tusk_comparison *c = begin_row(fcinfo, &weight);
    if (!c)
        return give_state(fcinfo, state_at(fcinfo, C_STATE));
    for (int k = 0; k < 3; k++) {
        Oid type = get_fn_expr_argtype(fcinfo->flinfo, C_LABEL + k);
        numbers[k] = read_number(PG_GETARG_DATUM(C_LABEL + k), type);
    }
    return take(c, numbers[0], numbers[1], numbers[2], weight);
}

static bool same_text(const text *a, const text *b) {
    Size n = VARSIZE_ANY_EXHDR(a);
    return n == VARSIZE_ANY_EXHDR(b) && !memcmp(VARDATA_ANY(a), VARDATA_ANY(b), n);
}

/* For texts it only matters whether their bytes are equal. */
PG_FUNCTION_INFO_V1(tuskml_compare_text);
Datum tuskml_compare_text(PG_FUNCTION_ARGS) {
    double weight;
    tusk_comparison *c = begin_row(fcinfo, &weight);
    if (!c)
        return give_state(fcinfo, state_at(fcinfo, C_STATE));
    if (!tusk_compares_classes(c))
        refuse_row("compare", TUSK_COMPARES_NUMBERS);
    const text *label = PG_GETARG_TEXT_PP(C_LABEL);
    return take(c, 1, same_text(label, PG_GETARG_TEXT_PP(C_A)),
                same_text(label, PG_GETARG_TEXT_PP(C_B)), weight);
}

/* Leaves the state unchanged: a window continues with it. */
PG_FUNCTION_INFO_V1(tuskml_compare_give);
Datum tuskml_compare_give(PG_FUNCTION_ARGS) {
    aggregate_context(fcinfo);
    const tusk_comparison *c = state_at(fcinfo, C_STATE);
    if (!c || !c->n)
        PG_RETURN_NULL();
    double found[TUSK_COMPARISON_FIELDS];
    Datum values[1 + TUSK_COMPARISON_FIELDS] = {Int64GetDatum(c->n)};
    bool nulls[1 + TUSK_COMPARISON_FIELDS] = {false};
    TupleDesc result;
    tusk_compare_give(c, found);
    for (int k = 0; k < TUSK_COMPARISON_FIELDS; k++) {
        values[k + 1] = Float8GetDatum(found[k]);
        nulls[k + 1] = isnan(found[k]);
    }
    if (get_call_result_type(fcinfo, NULL, &result) != TYPEFUNC_COMPOSITE)
        elog(ERROR, "compare: the result is no row");
    return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(result), values, nulls));
}

PG_FUNCTION_INFO_V1(tuskml_compare_combine);
Datum tuskml_compare_combine(PG_FUNCTION_ARGS) {
    MemoryContext context = aggregate_context(fcinfo);
    tusk_comparison *target = state_at(fcinfo, 0);
    const tusk_comparison *source = state_at(fcinfo, 1);
    if (!source)
        return give_state(fcinfo, target);
    if (!target)
        target = MemoryContextAllocZero(context, sizeof *target);
    char sentence[TUSK_SENTENCE];
    if (!tusk_compare_merge(target, source, sentence))
        refuse_row("compare", sentence);
    PG_RETURN_POINTER(target);
}

PG_FUNCTION_INFO_V1(tuskml_compare_serialize);
Datum tuskml_compare_serialize(PG_FUNCTION_ARGS) {
    aggregate_context(fcinfo);
    bytea *image = palloc(VARHDRSZ + sizeof(tusk_comparison));
    SET_VARSIZE(image, VARHDRSZ + sizeof(tusk_comparison));
    memcpy(VARDATA(image), PG_GETARG_POINTER(0), sizeof(tusk_comparison));
    PG_RETURN_BYTEA_P(image);
}

PG_FUNCTION_INFO_V1(tuskml_compare_deserialize);
Datum tuskml_compare_deserialize(PG_FUNCTION_ARGS) {
    aggregate_context(fcinfo);
    const bytea *image = PG_GETARG_BYTEA_PP(0);
    tusk_comparison *c = palloc(sizeof *c);
    if (VARSIZE_ANY_EXHDR(image) == sizeof *c)
        memcpy(c, VARDATA_ANY(image), sizeof *c);
    if (VARSIZE_ANY_EXHDR(image) != sizeof *c || (unsigned)c->kind >= TUSK_METRICS)
        ereport(ERROR, (errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
                        errmsg("tuskml: %zu bytes are no state of a comparison",
                               (size_t)VARSIZE_ANY_EXHDR(image))));
    PG_RETURN_POINTER(c);
}
