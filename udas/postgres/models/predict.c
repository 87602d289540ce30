/* predict, predict_proba and decision: compute a number from a model and the features of a row. */
#include "predictor.h"

#include "utils/builtins.h"

#include "../../scalars/models/interval.h"
#include "../../scalars/models/kinds.h"
#include "../../scalars/models/margins.h"
#include "../../scalars/trees/packed.h"
#include "../training/refusals.h"

enum argument { A_MODEL, A_FEATURES, A_OFFSET, A_LEVEL = A_OFFSET };

#define PACKED_FROM 8 /* rows from which packing trees pays */
#define LAID_OUT 2    /* rows that a model scores before it is laid out for more */

/* --- scoring --- */

static tusk_sparse_row sparse_of(const feature_row *row) {
    return (tusk_sparse_row){.ids = row->index,
                             .values = row->values,
                             .n_ids = (uint64)row->n_index,
                             .n_values = (uint64)row->n,
                             .wide = true};
}

/* Packs trees, within the limit of kept models. */
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

static double answer_of(const predictor *p, double margin, enum tusk_answer answer) {
    const tusk_scorer *s = &p->scorer;
    margin += p->offset;
    if (answer == TUSK_PREDICT_PROBA)
        tusk_to_probabilities(s, &margin, 1);
    else if (answer == TUSK_PREDICT || answer == TUSK_PREDICT_CLASS)
        tusk_to_predictions(s, &margin, 1);
    return margin;
}

/* Reads a row by name. */
static void read_row(row_reader *r, Datum features, enum tusk_answer answer,
                     enum feature_form form) {
    const char *name = TUSK_ANSWER_NAMES[answer];
    const tusk_named_chunk *row =
        form >= COLUMNS
            ? read_columns(&r->named, (const given_columns *)DatumGetPointer(features), name)
            : read_named(&r->named, features, name);
    if (r->rows.column != row->column)
        r->rows.n_matched = 0;
    r->rows.column = row->column;
    r->rows.n_columns = (uint32)row->schema->n_columns;
    r->rows.schema = row->schema;
    r->rows.n = 1;
}

/* The last row as ids and values. Returns false if it has no prediction. */
static bool expand_row(predictor *p, enum tusk_answer answer, tusk_sparse_row *found) {
    char sentence[TUSK_SENTENCE];
    bool null = true;
    if (!tusk_named_match(&p->reader->rows, &p->scorer, sentence) ||
        !tusk_named_row(&p->reader->rows, &p->scorer, 0, found, &null, sentence))
        refuse_answer(&p->scorer, answer, sentence);
    return !null;
}

/* Whether the model has layouts, and if so matches them with the row. */
static bool has_layouts(predictor *p, enum tusk_answer answer) {
    tusk_layouts *all = &p->reader->layouts;
    char sentence[TUSK_SENTENCE];
    Size own = p->scorer.n_coef * Max(p->scorer.list_size, 1) * sizeof(double);
    if (++p->n_named == LAID_OUT && all->bytes + all->lexica.bytes + own <= kept_room())
        p->layouts = tusk_class_layouts_new(all, &p->scorer, tusk_answers_lists(answer));
    if (!p->layouts)
        return false;
    if (!tusk_class_layouts_match(p->layouts, &p->reader->rows, &p->scorer, sentence))
        refuse_answer(&p->scorer, answer, sentence);
    return true;
}

static NullableDatum score_row(predictor *p, Datum features, enum tusk_answer answer,
                               enum feature_form form) {
    tusk_sparse_row found;
    char sentence[TUSK_SENTENCE];
    double margin;
    bool null;
    read_row(p->reader, features, answer, form);
    if (has_layouts(p, answer) &&
        tusk_class_layouts_margin(p->layouts, &p->reader->rows, 0, &margin, &null))
        return (NullableDatum){.value = Float8GetDatum(answer_of(p, margin, answer)),
                               .isnull = null};
    if (!expand_row(p, answer, &found))
        return (NullableDatum){.isnull = true};
    if (!tusk_sparse_margin(&p->scorer, &found, true, &margin, sentence))
        refuse_answer(&p->scorer, answer, sentence);
    return (NullableDatum){.value = Float8GetDatum(answer_of(p, margin, answer))};
}

/* Trees have a side for rows with a NULL, other models no result. */
static feature_row read_list(predictor *p, Datum features, enum feature_form form,
                             const char *name) {
    if (form == SPARSE)
        return read_sparse(features, &p->reader->buffer, name);
    return tusk_kind_of(p->scorer.task)->keeps_gaps
               ? read_gaps(features, false, &p->reader->buffer, name)
               : read_dense(features, &p->reader->buffer, name, "features");
}

NullableDatum score_features(predictor *p, NullableDatum features, enum tusk_answer answer,
                             enum feature_form form) {
    const NullableDatum null = {.isnull = true};
    if (p->scorer.null || features.isnull)
        return null;
    const char *name = TUSK_ANSWER_NAMES[answer];
    if (form >= NAMED)
        return score_row(p, features.value, answer, form);
    if (p->scorer.preparation.length)
        refuse_answer(&p->scorer, answer, TUSK_NEEDS_NAMES);
    feature_row row = read_list(p, features.value, form, name);
    if (row.null)
        return null;
    char sentence[TUSK_SENTENCE];
    double margin;
    if (!margin_of(p, &row, &margin, sentence))
        refuse_answer(&p->scorer, answer, sentence);
    return (NullableDatum){.value = Float8GetDatum(answer_of(p, margin, answer))};
}

bool read_features(predictor *p, Datum features, enum tusk_answer answer, enum feature_form form,
                   read_row_of *found) {
    char sentence[TUSK_SENTENCE];
    *found = (read_row_of){.named = NULL};
    if (form >= NAMED) {
        read_row(p->reader, features, answer, form);
        if (!tusk_named_match(&p->reader->rows, &p->scorer, sentence))
            refuse_answer(&p->scorer, answer, sentence);
        found->named = &p->reader->rows;
        return true;
    }
    if (p->scorer.preparation.length)
        refuse_answer(&p->scorer, answer, TUSK_NEEDS_NAMES);
    found->list = read_list(p, features, form, TUSK_ANSWER_NAMES[answer]);
    found->ids = sparse_of(&found->list);
    return !found->list.null;
}

/* The list of a row. */
static double *list_numbers(tusk_scorer *s, const tusk_sparse_row *ids, const feature_row *row,
                            enum tusk_answer answer) {
    double *numbers = palloc(s->list_size * sizeof *numbers);
    char sentence[TUSK_SENTENCE];
    bool f64 = !row || row->f64;
    if (!tusk_list(s, ids, row ? row->values : NULL, f64, row ? (uint64)row->n : 0, numbers,
                   sentence))
        refuse_answer(s, answer, sentence);
    return numbers;
}

/* The list of a row by name. */
static double *list_of_row(predictor *p, Datum features, enum tusk_answer answer,
                           enum feature_form form) {
    tusk_sparse_row ids;
    bool null;
    read_row(p->reader, features, answer, form);
    double *numbers = palloc(p->scorer.list_size * sizeof *numbers);
    if (has_layouts(p, answer) &&
        tusk_class_layouts_list(p->layouts, &p->reader->rows, &p->scorer, 0, numbers, &null))
        return null ? NULL : numbers;
    return expand_row(p, answer, &ids) ? list_numbers(&p->scorer, &ids, NULL, answer) : NULL;
}

/* NULL if the row has no result. */
static double *list_of(predictor *p, NullableDatum features, enum tusk_answer answer,
                       enum feature_form form) {
    const char *name = TUSK_ANSWER_NAMES[answer];
    tusk_sparse_row ids;
    if (p->scorer.null || features.isnull)
        return NULL;
    if (form >= NAMED)
        return list_of_row(p, features.value, answer, form);
    if (p->scorer.preparation.length)
        refuse_answer(&p->scorer, answer, TUSK_NEEDS_NAMES);
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

/* The call's features; if they are columns, these are stored in `given`. */
static NullableDatum features_of(FunctionCallInfo fcinfo, enum feature_form form,
                                 given_columns *given) {
    if (form < COLUMNS)
        return fcinfo->args[A_FEATURES];
    *given = (given_columns){fcinfo, A_FEATURES, A_FEATURES + (form == COLUMNS ? 1 : 2)};
    return (NullableDatum){.value = PointerGetDatum(given)};
}

static Datum score(FunctionCallInfo fcinfo, enum tusk_answer answer, enum feature_form form) {
    predictor *p = model_of(fcinfo, answer, form);
    NullableDatum found = {.isnull = true};
    given_columns given;
    if (p)
        found = score_features(p, features_of(fcinfo, form, &given), answer, form);
    if (found.isnull)
        PG_RETURN_NULL();
    return found.value;
}

/* The model of a call whose third argument is added to margins; NULL for a NULL. */
static predictor *model_with_offset(FunctionCallInfo fcinfo, enum tusk_answer answer,
                                    enum feature_form form) {
    predictor *p = model_of(fcinfo, answer, form);
    char sentence[TUSK_SENTENCE];
    if (p && !tusk_adds_offsets(&p->scorer, sentence))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("%s: %s", TUSK_OFFSET_NAMES[answer], sentence)));
    if (!p || PG_ARGISNULL(A_OFFSET))
        return NULL;
    p->offset = PG_GETARG_FLOAT8(A_OFFSET);
    return p;
}

static NullableDatum score_with_offset(FunctionCallInfo fcinfo, enum tusk_answer answer,
                                       enum feature_form form, predictor **p) {
    *p = model_with_offset(fcinfo, answer, form);
    return *p ? score_features(*p, fcinfo->args[A_FEATURES], answer, form)
              : (NullableDatum){.isnull = true};
}

static Datum number_with_offset(FunctionCallInfo fcinfo, enum tusk_answer answer,
                                enum feature_form form) {
    predictor *p;
    NullableDatum found = score_with_offset(fcinfo, answer, form, &p);
    if (found.isnull)
        PG_RETURN_NULL();
    return found.value;
}

int score_class_with_offset(FunctionCallInfo fcinfo, enum feature_form form, class_names **names) {
    predictor *p;
    NullableDatum found = score_with_offset(fcinfo, TUSK_PREDICT_CLASS, form, &p);
    if (found.isnull)
        return 0;
    *names = &p->names;
    return (int)DatumGetFloat8(found.value);
}

/* The level of a call's interval; false for a NULL. */
static bool set_level(FunctionCallInfo fcinfo, predictor *p) {
    char sentence[TUSK_SENTENCE];
    if (PG_ARGISNULL(A_LEVEL))
        return false;
    if (!p->scorer.null && !tusk_set_level(&p->scorer, PG_GETARG_FLOAT8(A_LEVEL), sentence))
        refuse_answer(&p->scorer, TUSK_PREDICT_INTERVAL, sentence);
    return true;
}

const double *score_list(FunctionCallInfo fcinfo, enum tusk_answer answer, enum feature_form form,
                         int *n, class_names **names) {
    predictor *p = model_of(fcinfo, answer, form);
    given_columns given;
    if (p && answer == TUSK_PREDICT_INTERVAL && !set_level(fcinfo, p))
        return NULL;
    const double *found = p ? list_of(p, features_of(fcinfo, form, &given), answer, form) : NULL;
    if (found) {
        *n = (int)p->scorer.list_size;
        *names = &p->names;
    }
    return found;
}

int score_class(FunctionCallInfo fcinfo, enum feature_form form, class_names **names) {
    predictor *p = model_of(fcinfo, TUSK_PREDICT_CLASS, form);
    NullableDatum found = {.isnull = true};
    given_columns given;
    if (p)
        found = score_features(p, features_of(fcinfo, form, &given), TUSK_PREDICT_CLASS, form);
    if (found.isnull)
        return 0;
    *names = &p->names;
    return (int)DatumGetFloat8(found.value);
}

#define DEFINE_BY(how, name, answer, form) \
    PG_FUNCTION_INFO_V1(name);             \
    Datum name(PG_FUNCTION_ARGS) {         \
        return how(fcinfo, answer, form);  \
    }
#define DEFINE_SCORE(name, answer, form) DEFINE_BY(score, name, answer, form)
#define DEFINE_OFFSET(name, answer, form) DEFINE_BY(number_with_offset, name, answer, form)

DEFINE_SCORE(tuskml_predict_dense, TUSK_PREDICT, DENSE)
DEFINE_SCORE(tuskml_predict_sparse, TUSK_PREDICT, SPARSE)
DEFINE_SCORE(tuskml_predict_row, TUSK_PREDICT, NAMED)
DEFINE_SCORE(tuskml_predict_columns, TUSK_PREDICT, COLUMNS)
DEFINE_SCORE(tuskml_predict_proba_dense, TUSK_PREDICT_PROBA, DENSE)
DEFINE_SCORE(tuskml_predict_proba_sparse, TUSK_PREDICT_PROBA, SPARSE)
DEFINE_SCORE(tuskml_predict_proba_row, TUSK_PREDICT_PROBA, NAMED)
DEFINE_SCORE(tuskml_predict_proba_columns, TUSK_PREDICT_PROBA, COLUMNS)
DEFINE_SCORE(tuskml_decision_dense, TUSK_DECISION, DENSE)
DEFINE_SCORE(tuskml_decision_sparse, TUSK_DECISION, SPARSE)
DEFINE_SCORE(tuskml_decision_row, TUSK_DECISION, NAMED)
DEFINE_SCORE(tuskml_decision_columns, TUSK_DECISION, COLUMNS)
DEFINE_OFFSET(tuskml_predict_with_offset_dense, TUSK_PREDICT, DENSE)
DEFINE_OFFSET(tuskml_predict_with_offset_sparse, TUSK_PREDICT, SPARSE)
DEFINE_OFFSET(tuskml_predict_with_offset_row, TUSK_PREDICT, NAMED)
DEFINE_OFFSET(tuskml_predict_proba_with_offset_dense, TUSK_PREDICT_PROBA, DENSE)
DEFINE_OFFSET(tuskml_predict_proba_with_offset_sparse, TUSK_PREDICT_PROBA, SPARSE)
DEFINE_OFFSET(tuskml_predict_proba_with_offset_row, TUSK_PREDICT_PROBA, NAMED)
