/* predict, predict_proba and decision by the name of a deployed model, with one look-up per
 * query. A call site keeps the models that it has looked up, by name and group, as long as the
 * visible rows stay the same. The look-up runs with the caller's rights. */
#include "predict.h"

#include "catalog/namespace.h"
#include "common/hashfn.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "../extension.h"
#include "../training/refusals.h"

/* Identifies a snapshot without its list of transactions: if the bounds are the same and as
 * many transactions are in progress, they are the same transactions. */
typedef struct sight {
    TransactionId xmin, xmax;
    uint32 in_progress;
    int32 subtransactions;
    CommandId command;
} sight;

typedef struct named_model {
    uint64 hash; /* of the name and group, which are the key */
    struct varlena *name;
    struct varlena *group;
    predictor *model; /* NULL if none is deployed */
} named_model;

typedef struct named_site {
    MemoryContext context; /* for the fields below */
    HTAB *models;
    sight seen;
    SPIPlanPtr plan;
    MemoryContextCallback end;
} named_site;

typedef struct asked {
    struct varlena *name;
    struct varlena *group;
    bool grouped; /* by name and group */
    enum tusk_answer answer;
} asked;

static bool same_text(const struct varlena *a, const struct varlena *b) {
    Size size = VARSIZE_ANY_EXHDR(a);
    return size == VARSIZE_ANY_EXHDR(b) && memcmp(VARDATA_ANY(a), VARDATA_ANY(b), size) == 0;
}

static uint64 hash_text(const struct varlena *text, uint64 seed) {
    return hash_bytes_extended((const unsigned char *)VARDATA_ANY(text),
                               (int)VARSIZE_ANY_EXHDR(text), seed);
}

static struct varlena *copy_text(const struct varlena *text, MemoryContext context) {
    struct varlena *copy = MemoryContextAlloc(context, VARSIZE_ANY(text));
    return memcpy(copy, text, VARSIZE_ANY(text));
}

/* --- state of a call site --- */

static void free_plan(void *site) {
    SPIPlanPtr plan = ((named_site *)site)->plan;
    if (plan)
        SPI_freeplan(plan);
}

static named_site *site_of(FmgrInfo *called) {
    if (called->fn_extra)
        return called->fn_extra;
    named_site *site = MemoryContextAllocZero(called->fn_mcxt, sizeof *site);
    site->context =
        AllocSetContextCreate(called->fn_mcxt, "tuskml models by name", ALLOCSET_DEFAULT_SIZES);
    site->end = (MemoryContextCallback){.func = free_plan, .arg = site};
    MemoryContextRegisterResetCallback(called->fn_mcxt, &site->end);
    called->fn_extra = site;
    return site;
}

static sight sight_now(void) {
    Snapshot s = ActiveSnapshotSet() ? GetActiveSnapshot() : GetTransactionSnapshot();
    sight now;
    memset(&now, 0, sizeof now);
    now.xmin = s->xmin;
    now.xmax = s->xmax;
    now.in_progress = s->xcnt;
    now.subtransactions = s->subxcnt;
    now.command = s->curcid;
    return now;
}

static void start_anew(named_site *site, sight now) {
    site->models = NULL;
    MemoryContextReset(site->context);
    HASHCTL how = {
        .keysize = sizeof(uint64), .entrysize = sizeof(named_model), .hcxt = site->context};
    site->models =
        hash_create("tuskml models by name", 16, &how, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
    site->seen = now;
}

/* Casts give the result its types: a table of that name could have columns of any type. */
static void prepare(named_site *site, enum tusk_answer answer) {
    if (!OidIsValid(get_relname_relid("models", get_namespace_oid("tuskml", true))))
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
                        errmsg("%s: the database has no registry of models, tuskml.models",
                               TUSK_ANSWER_NAMES[answer]),
                        errhint("SELECT create_registry(); makes it.")));
    StringInfoData query;
    initStringInfo(&query);
    appendStringInfo(&query,
                     "SELECT m.model::%s FROM tuskml.models AS m "
                     "WHERE m.name OPERATOR(pg_catalog.=) $1 "
                     "AND m.group_key OPERATOR(pg_catalog.=) $2 "
                     "AND m.stage OPERATOR(pg_catalog.=) 'deployed'::pg_catalog.text",
                     format_type_be_qualified(model_type()));
    Oid types[] = {TEXTOID, TEXTOID};
    SPIPlanPtr plan = SPI_prepare(query.data, 2, types);
    if (!plan || SPI_keepplan(plan) != 0)
        elog(ERROR, "%s: no plan for the registry: %d", TUSK_ANSWER_NAMES[answer], SPI_result);
    site->plan = plan;
}

/* A group may have no model yet, but a name without any model is a mistake. Called within SPI. */
static void refuse_unknown(const asked *what) {
    Oid types[] = {TEXTOID};
    Datum values[] = {PointerGetDatum(what->name)};
    int done =
        SPI_execute_with_args("SELECT 1 FROM tuskml.models AS m "
                              "WHERE m.name OPERATOR(pg_catalog.=) $1 "
                              "AND m.stage OPERATOR(pg_catalog.=) 'deployed'::pg_catalog.text",
                              1, types, values, NULL, true, 1);
    if (done == SPI_OK_SELECT && !SPI_processed)
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
                        errmsg("%s: there is no deployed model '%s' of any group",
                               TUSK_ANSWER_NAMES[what->answer], text_to_cstring(what->name)),
                        errhint("The table tuskml.models lists what there is.")));
}

/* The deployed model; NULL if there is none. */
static predictor *look_up(named_site *site, const asked *what) {
    predictor *found = NULL;
    if (SPI_connect() != SPI_OK_CONNECT)
        elog(ERROR, "%s: SPI_connect failed", TUSK_ANSWER_NAMES[what->answer]);
    if (!site->plan)
        prepare(site, what->answer);
    Datum values[] = {PointerGetDatum(what->name), PointerGetDatum(what->group)};
    int done = SPI_execute_plan(site->plan, values, NULL, true, 1);
    if (done != SPI_OK_SELECT)
        elog(ERROR, "%s: the registry answered %d", TUSK_ANSWER_NAMES[what->answer], done);
    if (SPI_processed) {
        bool null;
        Datum model = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &null);
        if (!null) {
            found = new_predictor(site->context);
            read_model(found, (const struct varlena *)DatumGetPointer(model), what->answer);
        }
    } else if (what->grouped) {
        refuse_unknown(what);
    }
    SPI_finish();
    return found;
}

static predictor *deployed(FmgrInfo *called, const asked *what) {
    named_site *site = site_of(called);
    sight now = sight_now();
    if (!site->models || memcmp(&now, &site->seen, sizeof now) != 0)
        start_anew(site, now);
    uint64 hash = hash_text(what->group, hash_text(what->name, 0));
    named_model *known = hash_search(site->models, &hash, HASH_FIND, NULL);
    if (known && same_text(known->name, what->name) && same_text(known->group, what->group))
        return known->model;
    if (MemoryContextMemAllocated(site->context, true) > (Size)work_mem * 1024)
        start_anew(site, now);
    predictor *found = look_up(site, what);
    named_model *entry = hash_search(site->models, &hash, HASH_ENTER, NULL);
    entry->name = copy_text(what->name, site->context);
    entry->group = copy_text(what->group, site->context);
    entry->model = found;
    return found;
}

/* --- SQL functions --- */

/* If only a name is given, a model must have it; a group may have no model yet. */
static Datum score_named(FunctionCallInfo fcinfo, enum tusk_answer answer,
                         enum feature_form form) {
    bool grouped = PG_NARGS() == 3;
    if (form == NAMED && !is_row_type(get_fn_expr_argtype(fcinfo->flinfo, PG_NARGS() - 1)))
        refuse_prediction(fcinfo, get_func_name(fcinfo->flinfo->fn_oid));
    if (PG_ARGISNULL(0) || (grouped && PG_ARGISNULL(1)))
        PG_RETURN_NULL();
    asked what = {.name = PG_GETARG_VARLENA_PP(0),
                  .group = grouped ? PG_GETARG_VARLENA_PP(1) : cstring_to_text(""),
                  .grouped = grouped,
                  .answer = answer};
    predictor *p = deployed(fcinfo->flinfo, &what);
    if (!p && !grouped)
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
                        errmsg("%s: there is no deployed model '%s' without groups",
                               TUSK_ANSWER_NAMES[answer], text_to_cstring(what.name)),
                        errhint("The table tuskml.models lists what there is.")));
    if (!p)
        PG_RETURN_NULL();
    NullableDatum found = score_features(p, fcinfo->args[PG_NARGS() - 1], answer, form);
    if (found.isnull)
        PG_RETURN_NULL();
    return found.value;
}

#define DEFINE_NAMED(name, answer, form)          \
    PG_FUNCTION_INFO_V1(name);                    \
    Datum name(PG_FUNCTION_ARGS) {                \
        return score_named(fcinfo, answer, form); \
    }

DEFINE_NAMED(tuskml_predict_named_dense, TUSK_PREDICT, DENSE)
DEFINE_NAMED(tuskml_predict_named_sparse, TUSK_PREDICT, SPARSE)
DEFINE_NAMED(tuskml_predict_named_row, TUSK_PREDICT, NAMED)
DEFINE_NAMED(tuskml_predict_proba_named_dense, TUSK_PREDICT_PROBA, DENSE)
DEFINE_NAMED(tuskml_predict_proba_named_sparse, TUSK_PREDICT_PROBA, SPARSE)
DEFINE_NAMED(tuskml_predict_proba_named_row, TUSK_PREDICT_PROBA, NAMED)
DEFINE_NAMED(tuskml_decision_named_dense, TUSK_DECISION, DENSE)
DEFINE_NAMED(tuskml_decision_named_sparse, TUSK_DECISION, SPARSE)
DEFINE_NAMED(tuskml_decision_named_row, TUSK_DECISION, NAMED)
