/* rolling_model: an aggregate that keeps moments of its rows, which a window adds and removes. */
#include "../features/features.h"

#include "funcapi.h"
#include "utils/typcache.h"

#include "../../scalars/rolling/fit.h"
#include "../training/trainer.h"

enum argument { A_STATE, A_LABEL, A_FEATURES, A_WEIGHT };

#define NAME "rolling_model"

/* Kept from row to row. */
typedef struct rolling_site {
    number_buffer buffer; /* of features */
    double *room;
    uint32 width; /* of rows that the room suffices for */
    TupleDesc model;
} rolling_site;

static rolling_site *site_of(FmgrInfo *function) {
    rolling_site *site = function->fn_extra;
    if (!site) {
        site = MemoryContextAllocZero(function->fn_mcxt, sizeof *site);
        site->buffer.context = function->fn_mcxt;
        function->fn_extra = site;
    }
    return site;
}

static void grow(FmgrInfo *function, rolling_site *site, uint32 width) {
    if (site->width >= width)
        return;
    if (site->room)
        pfree(site->room);
    site->width = 0;
    site->room =
        MemoryContextAlloc(function->fn_mcxt, tusk_fit_numbers(width, 1) * sizeof(double));
    site->width = width;
}

static void refuse(const char *sentence) {
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg(NAME ": %s", sentence)));
}

/* Reads the row of a transition; false if it has a NULL. */
static bool read_row(FunctionCallInfo fcinfo, rolling_site *site, tusk_moment_row *row) {
    bool weighted = PG_NARGS() > A_WEIGHT;
    if (PG_ARGISNULL(A_LABEL) || PG_ARGISNULL(A_FEATURES) || (weighted && PG_ARGISNULL(A_WEIGHT)))
        return false;
    feature_row features =
        read_dense(PG_GETARG_DATUM(A_FEATURES), &site->buffer, NAME, "features");
    if (features.null)
        return false;
    *row = (tusk_moment_row){.doubles = features.f64 ? features.values : NULL,
                             .floats = features.f64 ? NULL : features.values,
                             .n = (uint64)features.n,
                             .label = PG_GETARG_FLOAT8(A_LABEL),
                             .weight = weighted ? PG_GETARG_FLOAT8(A_WEIGHT) : 1};
    return true;
}

/* A window may not have a state that is NULL, so there is one from the first row on. */
PG_FUNCTION_INFO_V1(tuskml_rolling_add);
Datum tuskml_rolling_add(PG_FUNCTION_ARGS) {
    MemoryContext context = aggregate_context(fcinfo);
    rolling_site *site = site_of(fcinfo->flinfo);
    tusk_moments *m = PG_ARGISNULL(A_STATE) ? MemoryContextAllocZero(context, sizeof *m)
                                            : (tusk_moments *)PG_GETARG_POINTER(A_STATE);
    tusk_moment_row row;
    char sentence[TUSK_SENTENCE];
    if (!read_row(fcinfo, site, &row)) {
        m->n_skipped++;
        PG_RETURN_POINTER(m);
    }
    if (!tusk_moments_fit(m, row.n, sentence))
        refuse(sentence);
    if (!m->width) {
        uint32 width = (uint32)row.n + 1;
        tusk_moments_begin(
            m, width, MemoryContextAlloc(context, tusk_moment_numbers(width) * sizeof(double)));
    }
    grow(fcinfo->flinfo, site, m->width);
    tusk_moments_add(m, &row, 1, site->room);
    PG_RETURN_POINTER(m);
}

/* NULL makes the window compute the moments anew, of the rows that are left. */
PG_FUNCTION_INFO_V1(tuskml_rolling_remove);
Datum tuskml_rolling_remove(PG_FUNCTION_ARGS) {
    aggregate_context(fcinfo);
    rolling_site *site = site_of(fcinfo->flinfo);
    tusk_moments *m = (tusk_moments *)PG_GETARG_POINTER(A_STATE);
    tusk_moment_row row;
    if (!read_row(fcinfo, site, &row)) {
        m->n_skipped--;
        PG_RETURN_POINTER(m);
    }
    grow(fcinfo->flinfo, site, m->width);
    if (!tusk_moments_remove(m, &row, site->room))
        PG_RETURN_NULL();
    PG_RETURN_POINTER(m);
}

/* Leaves the state unchanged: a window continues with it. */
PG_FUNCTION_INFO_V1(tuskml_rolling_give);
Datum tuskml_rolling_give(PG_FUNCTION_ARGS) {
    aggregate_context(fcinfo);
    const tusk_moments *m =
        PG_ARGISNULL(A_STATE) ? NULL : (const tusk_moments *)PG_GETARG_POINTER(A_STATE);
    if (!m || (!m->n_rows && !m->n_invalid))
        PG_RETURN_NULL();
    rolling_site *site = site_of(fcinfo->flinfo);
    if (!site->model) {
        MemoryContext before = MemoryContextSwitchTo(fcinfo->flinfo->fn_mcxt);
        site->model = lookup_rowtype_tupdesc_copy(get_func_rettype(fcinfo->flinfo->fn_oid), -1);
        MemoryContextSwitchTo(before);
    }
    grow(fcinfo->flinfo, site, m->width);
    tusk_fits *fits = palloc(sizeof *fits);
    tusk_fit_moments(fits, &m, 1, site->room);
    Datum model = model_datum(site->model, &fits->models, 0);
    pfree(fits);
    PG_RETURN_DATUM(model);
}
