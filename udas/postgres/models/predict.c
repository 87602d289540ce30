/* predict, predict_proba and decision: compute a number from a model and the features of a row.
 *
 * A model is read once and kept as long as the next rows bring the same bytes. Usually all rows
 * of a query have one model, passed as the few bytes that say where TOAST keeps it. A model that
 * comes again after others, as rows joined with a model each bring them, is kept from its second
 * time on, within a share of the memory for rows (kept_room). The columns of rows by name are
 * found once for all models.
 */
#include "predict.h"

#include "access/detoast.h"
#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "../../scalars/models/margins.h"
#include "../../scalars/models/payload.h"
#include "../../scalars/planned/classes.h"
#include "../../scalars/trees/packed.h"
#include "../stores.h"
#include "../training/refusals.h"
#include "model_value.h"

enum argument { A_MODEL, A_FEATURES };

#define MOST_NOTED 100000 /* models of a call site whose hashes are kept */
#define HASHED_BYTES 8192
/* About what a kept model takes besides its bytes and its packed trees. */
#define KEPT_BYTES 4096
#define PACKED_FROM 8 /* rows for which trees are worth being packed */

#define LAID_OUT 4 /* rows that a model scores before it is laid out for more */

/* What the models of a call site read rows with. */
typedef struct row_reader {
    number_buffer buffer;
    named_reader named;
    tusk_named_rows rows;
    tusk_layouts layouts;
    MemoryContextCallback end;
} row_reader;

/* A model that has been read. */
struct predictor {
    MemoryContext model; /* holds the bytes and what the scorer points to */
    const void *bytes;   /* of the model that was read last; NULL if none was */
    Size size;
    tusk_scorer scorer;
    int rows;            /* scored since it was read, up to PACKED_FROM */
    tusk_packed *packed; /* its trees from then on; NULL: none, or not in such a form */
    class_names names;   /* for answers by class */
    row_reader *reader;
    Size charged;                /* of its call site's kept bytes */
    Size *kept_bytes;            /* these; NULL: the model is not kept */
    uint64 n_named;              /* rows by name that it has scored */
    tusk_class_layouts *layouts; /* NULL: there are none yet, or none of such a model */
    MemoryContextCallback end;
};

/* A model that came before. */
typedef struct noted_model {
    uint64 hash;
    predictor *kept; /* NULL: it came once so far */
} noted_model;

typedef struct call_site {
    predictor *last;    /* the model of the row before */
    predictor *passing; /* for models that are not kept */
    HTAB *noted;        /* by hash; NULL while there was one model only */
    Size kept_bytes;
} call_site;

static void refuse(const tusk_scorer *s, enum tusk_answer answer, const char *sentence) {
    const char *state = s->sqlstate ? s->sqlstate : "22023";
    ereport(ERROR, (errcode(MAKE_SQLSTATE(state[0], state[1], state[2], state[3], state[4])),
                    errmsg("%s: %s", TUSK_ANSWER_NAMES[answer], sentence)));
}

/* --- reading the model --- */

void read_model(predictor *p, const struct varlena *bytes, enum tusk_answer answer) {
    p->bytes = NULL;
    p->n_named = 0;
    tusk_class_layouts_free(&p->reader->layouts, p->layouts);
    p->layouts = NULL;
    p->packed = NULL;
    p->rows = 0;
    tusk_forget_model(&p->scorer);
    MemoryContextReset(p->model);
    MemoryContext before = MemoryContextSwitchTo(p->model);
    Size size = VARSIZE_ANY(bytes);
    void *copy = MemoryContextAllocHuge(p->model, size);
    memcpy(copy, bytes, size);
    bool named = answer == TUSK_PREDICT_CLASS || answer == TUSK_PREDICT_PROBAS;
    tusk_text payload = read_payload(copy, named ? &p->names : NULL);
    tusk_stores stores = backend_stores();
    char sentence[TUSK_SENTENCE] = TUSK_NO_PAYLOAD;
    if (!payload.data || !tusk_read_model(payload, &stores, answer, &p->scorer, sentence))
        refuse(&p->scorer, answer, sentence);
    MemoryContextSwitchTo(before);
    p->bytes = copy;
    p->size = size;
}

static void forget(void *model) {
    predictor *p = model;
    tusk_class_layouts_free(&p->reader->layouts, p->layouts);
    tusk_forget_model(&p->scorer);
}

/* It is registered before its predictors are, so it runs after theirs. */
static void free_reader(void *reader) {
    row_reader *r = reader;
    tusk_layouts_free(&r->layouts);
    tusk_named_free(&r->rows);
}

static row_reader *new_reader(MemoryContext context) {
    row_reader *r = MemoryContextAllocZero(context, sizeof *r);
    r->buffer.context = r->named.context = context;
    r->end = (MemoryContextCallback){.func = free_reader, .arg = r};
    MemoryContextRegisterResetCallback(context, &r->end);
    return r;
}

static predictor *predictor_with(MemoryContext context, row_reader *reader) {
    predictor *p = MemoryContextAllocZero(context, sizeof *p);
    p->model = AllocSetContextCreate(context, "tuskml model", ALLOCSET_START_SMALL_SIZES);
    p->reader = reader;
    p->end = (MemoryContextCallback){.func = forget, .arg = p};
    MemoryContextRegisterResetCallback(context, &p->end);
    return p;
}

predictor *new_predictor(MemoryContext context) {
    return predictor_with(context, new_reader(context));
}

/* --- the models of a call site --- */

static bool is_of(const predictor *p, const struct varlena *bytes) {
    return p && p->bytes && p->size == VARSIZE_ANY(bytes) && memcmp(p->bytes, bytes, p->size) == 0;
}

/* Of the first bytes, in four lanes that the processor multiplies side by side. */
static uint64 hash_of(const struct varlena *bytes) {
    const uint64 odd = UINT64CONST(0x9E3779B97F4A7C15);
    const char *at = (const char *)bytes;
    Size size = VARSIZE_ANY(bytes), n = Min(size, HASHED_BYTES) & ~(Size)31;
    uint64 lane[4] = {size, 1, 2, 3};
    for (Size i = 0; i < n; i += sizeof lane) {
        uint64 words[4];
        memcpy(words, at + i, sizeof words);
        for (int k = 0; k < 4; k++)
            lane[k] = (lane[k] ^ words[k] ^ lane[k] >> 29) * odd;
    }
    uint64 rest = hash_bytes_extended((const unsigned char *)at + n, (int)Min(size - n, 31), 0);
    return hash_bytes_extended((const unsigned char *)lane, sizeof lane, rest);
}

static noted_model *note(call_site *site, const struct varlena *bytes, MemoryContext context,
                         bool *again) {
    if (!site->noted) {
        HASHCTL how = {
            .keysize = sizeof(uint64), .entrysize = sizeof(noted_model), .hcxt = context};
        site->noted =
            hash_create("tuskml models", 64, &how, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
    }
    bool full = hash_get_num_entries(site->noted) >= MOST_NOTED;
    uint64 hash = hash_of(bytes);
    noted_model *found = hash_search(site->noted, &hash, full ? HASH_FIND : HASH_ENTER, again);
    if (found && !*again)
        found->kept = NULL;
    return found;
}

/* The bytes of a model, of which the row may only say where TOAST keeps them. */
static Size raw_size(struct varlena *bytes) {
    return toast_raw_datum_size(PointerGetDatum(bytes));
}

/* What models that are kept may take. */
static Size kept_room(void) {
    return Max((Size)work_mem * 1024, (Size)backend_budget() / 4);
}

/* Notes what a kept model takes since it was read. */
static void charge_for(call_site *site, predictor *p) {
    Size now = MemoryContextMemAllocated(p->model, true) + KEPT_BYTES;
    if (p == site->passing)
        return;
    site->kept_bytes += now - p->charged;
    p->charged = now;
}

/* A predictor that has the model, or is to read it. */
static predictor *place_for(call_site *site, struct varlena *bytes, MemoryContext context) {
    bool again;
    noted_model *noted = note(site, bytes, context, &again);
    if (!noted || !again)
        return site->passing;
    if (!noted->kept && site->kept_bytes + raw_size(bytes) + KEPT_BYTES <= kept_room())
        noted->kept = predictor_with(context, site->passing->reader);
    if (noted->kept)
        noted->kept->kept_bytes = &site->kept_bytes;
    bool usable = noted->kept && (!noted->kept->bytes || is_of(noted->kept, bytes));
    return usable ? noted->kept : site->passing;
}

static predictor *predictor_of(FmgrInfo *called, Datum model, enum tusk_answer answer) {
    call_site *site = called->fn_extra;
    struct varlena *bytes = telling_bytes(model);
    if (!site) {
        called->fn_extra = site = MemoryContextAllocZero(called->fn_mcxt, sizeof *site);
        site->last = site->passing = new_predictor(called->fn_mcxt);
    } else if (!is_of(site->last, bytes)) {
        site->last = place_for(site, bytes, called->fn_mcxt);
    }
    if (!is_of(site->last, bytes)) {
        read_model(site->last, bytes, answer);
        charge_for(site, site->last);
    }
    return site->last;
}

/* --- scoring --- */

static tusk_sparse_row sparse_of(const feature_row *row) {
    return (tusk_sparse_row){.ids = row->index,
                             .values = row->values,
                             .n_ids = (uint64)row->n_index,
                             .n_values = (uint64)row->n,
                             .wide = true};
}

/* Not beyond what kept models may take. */
static void pack_trees(predictor *p, bool f64) {
    Size bytes = p->scorer.is_compact ? tusk_packed_bytes(&p->scorer.trees, f64) : 0;
    if (!bytes || (p->kept_bytes && *p->kept_bytes + bytes > kept_room()))
        return;
    tusk_packed *packed = MemoryContextAllocHuge(p->model, bytes);
    if (!tusk_packed_make(&p->scorer.trees, f64, packed)) {
        pfree(packed);
        return;
    }
    p->packed = packed;
    if (!p->kept_bytes)
        return;
    *p->kept_bytes += bytes;
    p->charged += bytes;
}

static bool packed_margin(predictor *p, const feature_row *row, double *margin) {
    if (p->rows < PACKED_FROM && ++p->rows == PACKED_FROM)
        pack_trees(p, row->f64);
    *margin = p->scorer.intercept;
    return p->packed && (uint64)row->n == tusk_tree_features(&p->scorer) &&
           tusk_packed_margin(p->packed, row->values, row->f64, margin);
}

static bool margin_of(predictor *p, const feature_row *row, double *margin, char *sentence) {
    tusk_scorer *s = &p->scorer;
    if (!row->sparse && packed_margin(p, row, margin))
        return true;
    if (!row->sparse)
        return tusk_margins(s, row->values, row->f64, (uint64)row->n, 1, margin, sentence);
    tusk_sparse_row sparse = sparse_of(row);
    return tusk_sparse_margin(s, &sparse, row->f64, margin, sentence);
}

static double answer_of(const tusk_scorer *s, double margin, enum tusk_answer answer) {
    if (answer == TUSK_PREDICT_PROBA)
        tusk_to_probabilities(s, &margin, 1);
    else if (answer == TUSK_PREDICT || answer == TUSK_PREDICT_CLASS)
        tusk_to_predictions(s, &margin, 1);
    return margin;
}

/* Reads a row by name. */
static void read_row(row_reader *r, Datum features, enum tusk_answer answer) {
    const tusk_named_chunk *row = read_named(&r->named, features, TUSK_ANSWER_NAMES[answer]);
    if (r->rows.column != row->column)
        r->rows.n_matched = 0;
    r->rows.column = row->column;
    r->rows.n_columns = (uint32)row->schema->n_columns;
    r->rows.schema = row->schema;
    r->rows.n = 1;
}

/* The row that was read as ids and values. Returns false if it has no prediction. */
static bool expand_row(predictor *p, enum tusk_answer answer, tusk_sparse_row *found) {
    char sentence[TUSK_SENTENCE];
    bool null;
    if (!tusk_named_match(&p->reader->rows, &p->scorer, sentence) ||
        !tusk_named_row(&p->reader->rows, &p->scorer, 0, found, &null, sentence))
        refuse(&p->scorer, answer, sentence);
    return !null;
}

/* Whether the model has layouts, which are matched with the row that was read. */
static bool has_layouts(predictor *p, enum tusk_answer answer) {
    tusk_layouts *all = &p->reader->layouts;
    char sentence[TUSK_SENTENCE];
    Size own = p->scorer.n_coef * Max(p->scorer.list_size, 1) * sizeof(double);
    if (++p->n_named == LAID_OUT && all->bytes + all->lexica.bytes + own <= kept_room())
        p->layouts = tusk_class_layouts_new(all, &p->scorer, tusk_answers_lists(answer));
    if (!p->layouts)
        return false;
    if (!tusk_class_layouts_match(p->layouts, &p->reader->rows, &p->scorer, sentence))
        refuse(&p->scorer, answer, sentence);
    return true;
}

static NullableDatum score_row(predictor *p, Datum features, enum tusk_answer answer) {
    tusk_sparse_row found;
    char sentence[TUSK_SENTENCE];
    double margin;
    bool null;
    read_row(p->reader, features, answer);
    if (has_layouts(p, answer) &&
        tusk_class_layouts_margin(p->layouts, &p->reader->rows, 0, &margin, &null))
        return (NullableDatum){.value = Float8GetDatum(answer_of(&p->scorer, margin, answer)),
                               .isnull = null};
    if (!expand_row(p, answer, &found))
        return (NullableDatum){.isnull = true};
    if (!tusk_sparse_margin(&p->scorer, &found, true, &margin, sentence))
        refuse(&p->scorer, answer, sentence);
    return (NullableDatum){.value = Float8GetDatum(answer_of(&p->scorer, margin, answer))};
}

/* Trees have a side for rows with a NULL, other models no answer. */
static feature_row read_list(predictor *p, Datum features, enum feature_form form,
                             const char *name) {
    if (form == SPARSE)
        return read_sparse(features, &p->reader->buffer, name);
    return p->scorer.task == TUSK_BOOSTED
               ? read_gaps(features, &p->reader->buffer, name)
               : read_dense(features, &p->reader->buffer, name, "features");
}

NullableDatum score_features(predictor *p, NullableDatum features, enum tusk_answer answer,
                             enum feature_form form) {
    const NullableDatum null = {.isnull = true};
    if (p->scorer.null || features.isnull)
        return null;
    const char *name = TUSK_ANSWER_NAMES[answer];
    if (form == NAMED)
        return score_row(p, features.value, answer);
    if (p->scorer.preparation.length)
        refuse(&p->scorer, answer, TUSK_NEEDS_NAMES);
    feature_row row = read_list(p, features.value, form, name);
    if (row.null)
        return null;
    char sentence[TUSK_SENTENCE];
    double margin;
    if (!margin_of(p, &row, &margin, sentence))
        refuse(&p->scorer, answer, sentence);
    return (NullableDatum){.value = Float8GetDatum(answer_of(&p->scorer, margin, answer))};
}

/* The list of a row. */
static double *list_numbers(tusk_scorer *s, const tusk_sparse_row *ids, const feature_row *row,
                            enum tusk_answer answer) {
    double *numbers = palloc(s->list_size * sizeof *numbers);
    char sentence[TUSK_SENTENCE];
    bool f64 = !row || row->f64;
    if (!tusk_list(s, ids, row ? row->values : NULL, f64, row ? (uint64)row->n : 0, numbers,
                   sentence))
        refuse(s, answer, sentence);
    return numbers;
}

/* That of a row by name. */
static double *list_of_row(predictor *p, Datum features, enum tusk_answer answer) {
    tusk_sparse_row ids;
    bool null;
    read_row(p->reader, features, answer);
    double *numbers = palloc(p->scorer.list_size * sizeof *numbers);
    if (has_layouts(p, answer) &&
        tusk_class_layouts_list(p->layouts, &p->reader->rows, &p->scorer, 0, numbers, &null))
        return null ? NULL : numbers;
    return expand_row(p, answer, &ids) ? list_numbers(&p->scorer, &ids, NULL, answer) : NULL;
}

/* NULL if the row has no answer. */
static double *list_of(predictor *p, NullableDatum features, enum tusk_answer answer,
                       enum feature_form form) {
    const char *name = TUSK_ANSWER_NAMES[answer];
    tusk_sparse_row ids;
    if (p->scorer.null || features.isnull)
        return NULL;
    if (form == NAMED)
        return list_of_row(p, features.value, answer);
    if (p->scorer.preparation.length)
        refuse(&p->scorer, answer, TUSK_NEEDS_NAMES);
    feature_row row = read_list(p, features.value, form, name);
    if (row.null)
        return NULL;
    ids = sparse_of(&row);
    return list_numbers(&p->scorer, form == SPARSE ? &ids : NULL, &row, answer);
}

/* The call's model; NULL for a NULL. */
static predictor *model_of(FunctionCallInfo fcinfo, enum tusk_answer answer,
                           enum feature_form form) {
    bool first = !fcinfo->flinfo->fn_extra; /* the types of a call site stay the same */
    if (first && form == NAMED && !is_row_type(get_fn_expr_argtype(fcinfo->flinfo, A_FEATURES)))
        refuse_prediction(fcinfo, TUSK_ANSWER_NAMES[answer]);
    if (PG_ARGISNULL(A_MODEL))
        return NULL;
    return predictor_of(fcinfo->flinfo, PG_GETARG_DATUM(A_MODEL), answer);
}

static Datum score(FunctionCallInfo fcinfo, enum tusk_answer answer, enum feature_form form) {
    predictor *p = model_of(fcinfo, answer, form);
    NullableDatum found = {.isnull = true};
    if (p)
        found = score_features(p, fcinfo->args[A_FEATURES], answer, form);
    if (found.isnull)
        PG_RETURN_NULL();
    return found.value;
}

const double *score_list(FunctionCallInfo fcinfo, enum tusk_answer answer, enum feature_form form,
                         int *n, class_names **names) {
    predictor *p = model_of(fcinfo, answer, form);
    const double *found = p ? list_of(p, fcinfo->args[A_FEATURES], answer, form) : NULL;
    if (found) {
        *n = (int)p->scorer.list_size;
        *names = &p->names;
    }
    return found;
}

int score_class(FunctionCallInfo fcinfo, enum feature_form form, class_names **names) {
    predictor *p = model_of(fcinfo, TUSK_PREDICT_CLASS, form);
    NullableDatum found = {.isnull = true};
    if (p)
        found = score_features(p, fcinfo->args[A_FEATURES], TUSK_PREDICT_CLASS, form);
    if (found.isnull)
        return 0;
    *names = &p->names;
    return (int)DatumGetFloat8(found.value);
}

#define DEFINE_SCORE(name, answer, form)    \
    PG_FUNCTION_INFO_V1(name);              \
    Datum name(PG_FUNCTION_ARGS) {          \
        return score(fcinfo, answer, form); \
    }

DEFINE_SCORE(tuskml_predict_dense, TUSK_PREDICT, DENSE)
DEFINE_SCORE(tuskml_predict_sparse, TUSK_PREDICT, SPARSE)
DEFINE_SCORE(tuskml_predict_row, TUSK_PREDICT, NAMED)
DEFINE_SCORE(tuskml_predict_proba_dense, TUSK_PREDICT_PROBA, DENSE)
DEFINE_SCORE(tuskml_predict_proba_sparse, TUSK_PREDICT_PROBA, SPARSE)
DEFINE_SCORE(tuskml_predict_proba_row, TUSK_PREDICT_PROBA, NAMED)
DEFINE_SCORE(tuskml_decision_dense, TUSK_DECISION, DENSE)
DEFINE_SCORE(tuskml_decision_sparse, TUSK_DECISION, SPARSE)
DEFINE_SCORE(tuskml_decision_row, TUSK_DECISION, NAMED)
