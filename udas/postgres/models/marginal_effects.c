/* marginal_effects: an aggregate of the rows of one model. */
#include "predictor.h"

#include "utils/builtins.h"

#include "../../scalars/explaining/effects.h"
#include "../metrics/metrics.h"
#include "model_value.h"

enum argument { E_STATE, E_MODEL, E_FEATURES, E_WEIGHT, E_OFFSET };

#define NAME "marginal_effects"

static tusk_text name_at(const void *names, uint64_t k) {
    const class_names *all = names;
    if (all->null[k])
        return (tusk_text){NULL, 0};
    const text *name = DatumGetTextPP(all->name[k]);
    return (tusk_text){VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name)};
}

static tusk_effects *begin(FunctionCallInfo fcinfo, const predictor *p) {
    MemoryContext context = aggregate_context(fcinfo);
    class_names names = read_feature_names(PG_GETARG_POINTER(E_MODEL));
    const tusk_class_names given = {name_at, &names, 0, (uint64)names.n};
    char sentence[TUSK_SENTENCE];
    tusk_effects *e =
        tusk_effects_new(&p->scorer, p->payload, &given, growth_in(context), sentence);
    if (!e)
        refuse_row(NAME, sentence);
    return e;
}

/* Whether all arguments of a row but the state are there. */
static bool is_complete(FunctionCallInfo fcinfo) {
    for (int i = E_MODEL; i < PG_NARGS(); i++)
        if (PG_ARGISNULL(i))
            return false;
    return true;
}

static void add(FunctionCallInfo fcinfo, predictor *p, tusk_effects *e, const read_row_of *row) {
    char sentence[TUSK_SENTENCE];
    tusk_effect_row given = {.named = row->named,
                             .sparse = row->list.sparse ? &row->ids : NULL,
                             .x = row->list.values,
                             .d = (uint64)row->list.n,
                             .f64 = row->list.f64,
                             .weight = 1};
    if (PG_NARGS() > E_WEIGHT)
        given.weight = PG_GETARG_FLOAT8(E_WEIGHT);
    if (PG_NARGS() > E_OFFSET)
        given.offset = PG_GETARG_FLOAT8(E_OFFSET);
    if (!tusk_effects_add(e, &p->scorer, &given, sentence))
        refuse_row(NAME, sentence);
}

PG_FUNCTION_INFO_V1(tuskml_marginal_effects_add);
Datum tuskml_marginal_effects_add(PG_FUNCTION_ARGS) {
    Oid model = get_fn_expr_argtype(fcinfo->flinfo, E_MODEL);
    Oid type = get_fn_expr_argtype(fcinfo->flinfo, E_FEATURES);
    enum feature_form form = form_of(type, model);
    tusk_effects *e = state_at(fcinfo, E_STATE);
    char sentence[TUSK_SENTENCE];
    read_row_of row;
    aggregate_context(fcinfo);
    if (form == NAMED && !is_row_type(type))
        ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
                        errmsg(NAME ": features is %s, expected a row with names, an array of "
                                    "numbers or sparse(indices, values)",
                               format_type_be(type))));
    if (!is_complete(fcinfo))
        return give_state(fcinfo, e);
    predictor *p = predictor_of(fcinfo->flinfo, PG_GETARG_DATUM(E_MODEL), TUSK_MARGINAL_EFFECTS);
    if (p->scorer.null ||
        !read_features(p, PG_GETARG_DATUM(E_FEATURES), TUSK_MARGINAL_EFFECTS, form, &row))
        return give_state(fcinfo, e);
    if (!e)
        e = begin(fcinfo, p);
    else if (!tusk_effects_of(e, p->payload, sentence))
        refuse_row(NAME, sentence);
    add(fcinfo, p, e, &row);
    PG_RETURN_POINTER(e);
}

/* Leaves the state unchanged: a window continues with it. */
PG_FUNCTION_INFO_V1(tuskml_marginal_effects_give);
Datum tuskml_marginal_effects_give(PG_FUNCTION_ARGS) {
    aggregate_context(fcinfo);
    const tusk_effects *e = state_at(fcinfo, E_STATE);
    if (!e || !tusk_effects_known(e))
        PG_RETURN_NULL();
    array_writer *w = array_begin(fcinfo, &TUSK_EFFECTS_TABLE);
    tusk_effects_write(e, array_rows(w));
    return array_end(w);
}

static tusk_effects *copy_of(const void *bytes, size_t size, MemoryContext context) {
    void *copy = MemoryContextAllocHuge(context, size);
    return memcpy(copy, bytes, size);
}

PG_FUNCTION_INFO_V1(tuskml_marginal_effects_combine);
Datum tuskml_marginal_effects_combine(PG_FUNCTION_ARGS) {
    MemoryContext context = aggregate_context(fcinfo);
    tusk_effects *target = state_at(fcinfo, 0);
    const tusk_effects *source = state_at(fcinfo, 1);
    char sentence[TUSK_SENTENCE];
    if (!source)
        return give_state(fcinfo, target);
    if (!target)
        target = copy_of(source, tusk_effects_size(source), context);
    else if (!tusk_effects_merge(target, source, sentence))
        refuse_row(NAME, sentence);
    PG_RETURN_POINTER(target);
}

PG_FUNCTION_INFO_V1(tuskml_marginal_effects_serialize);
Datum tuskml_marginal_effects_serialize(PG_FUNCTION_ARGS) {
    aggregate_context(fcinfo);
    const tusk_effects *e = state_at(fcinfo, 0);
    size_t size = tusk_effects_size(e);
    bytea *image = palloc(VARHDRSZ + size);
    SET_VARSIZE(image, VARHDRSZ + size);
    memcpy(VARDATA(image), e, size);
    PG_RETURN_BYTEA_P(image);
}

PG_FUNCTION_INFO_V1(tuskml_marginal_effects_deserialize);
Datum tuskml_marginal_effects_deserialize(PG_FUNCTION_ARGS) {
    aggregate_context(fcinfo);
    const bytea *image = PG_GETARG_BYTEA_PP(0);
    size_t size = VARSIZE_ANY_EXHDR(image);
    if (!tusk_effects_fit(VARDATA_ANY(image), size))
        ereport(ERROR, (errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
                        errmsg("tuskml: %zu bytes are no state of marginal effects", size)));
    PG_RETURN_POINTER(copy_of(VARDATA_ANY(image), size, CurrentMemoryContext));
}
