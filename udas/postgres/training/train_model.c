/* train_model and explain_training: pack rows into blocks, and at the end pass the blocks to
 * the trainer. */
#include "../../rowblock/merge.h"
#include "../features/named.h"
#include "../features/words.h"
#include "groups.h"
#include "refusals.h"
#include "trainer.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"

enum argument { A_STATE, A_TASK, A_LABEL, A_FEATURES, A_OPTIONS, A_WEIGHT, A_OFFSET };

/* The collector of a transition function that reads rows. */
typedef struct row_collector {
    collector groups;
    Oid label;
    const tusk_schema *text_labels; /* of lists; NULL: labels are numbers */
    FmgrInfo label_output;
    tusk_label_values label_order;
    number_buffer buffer;
    named_reader reader;
    bool by_word; /* whether features are words */
    document_reader documents;
    Oid options;           /* JSON as text or as json, or else jsonb */
    struct varlena *jsonb; /* the last one; NULL: none yet */
    text *as_text;         /* the same */
} row_collector;

static Oid label_type(FunctionCallInfo fcinfo, const char *name) {
    Oid type = number_type(get_fn_expr_argtype(fcinfo->flinfo, A_LABEL));
    if (!is_number_type(type) && !is_text_type(type))
        ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
                        errmsg("%s: label is %s, expected a number, a boolean or text", name,
                               format_type_be(type))));
    return type;
}

/* The type of the options, or the base type of a domain. */
static Oid type_of_options(FunctionCallInfo fcinfo, const char *name) {
    Oid type = PG_NARGS() > A_OPTIONS ? get_fn_expr_argtype(fcinfo->flinfo, A_OPTIONS) : TEXTOID;
    Oid base = OidIsValid(type) ? getBaseType(type) : TEXTOID;
    if (base == JSONBOID || base == JSONOID || base == TEXTOID || base == VARCHAROID ||
        base == UNKNOWNOID)
        return base;
    ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
                    errmsg("%s: options is %s, expected an object of JSON as text, json or jsonb",
                           name, format_type_be(type))));
}

static row_collector *row_collector_of(FunctionCallInfo fcinfo) {
    row_collector *c = fcinfo->flinfo->fn_extra;
    if (c)
        return c;
    c = MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, sizeof *c);
    collector_init(&c->groups, fcinfo);
    c->label = label_type(fcinfo, c->groups.name);
    c->options = type_of_options(fcinfo, c->groups.name);
    c->by_word = is_array_of_text(get_fn_expr_argtype(fcinfo->flinfo, A_FEATURES));
    c->buffer.context = c->reader.context = c->documents.context = fcinfo->flinfo->fn_mcxt;
    c->reader.trains = true;
    if (is_text_type(c->label)) {
        MemoryContext before = MemoryContextSwitchTo(fcinfo->flinfo->fn_mcxt);
        c->label_order = values_of_enum(c->label);
        MemoryContextSwitchTo(before);
        c->reader.text_label = c->label_order.n ? TUSK_ORDERED : TUSK_UNORDERED;
        c->text_labels = schema_of_labels(c->reader.text_label);
        find_output(c->label, &c->label_output, fcinfo->flinfo->fn_mcxt);
    }
    fcinfo->flinfo->fn_extra = c;
    return c;
}

/* Options are the same in all rows of a group, so that the last ones are cached as text. */
static text *options_of(FunctionCallInfo fcinfo, row_collector *rc) {
    struct varlena *given = PG_DETOAST_DATUM_PACKED(PG_GETARG_DATUM(A_OPTIONS));
    if (rc->options != JSONBOID)
        return (text *)given;
    Size size = VARSIZE_ANY(given);
    if (rc->jsonb && VARSIZE_ANY(rc->jsonb) == size && memcmp(rc->jsonb, given, size) == 0)
        return rc->as_text;
    MemoryContext before = MemoryContextSwitchTo(fcinfo->flinfo->fn_mcxt);
    Jsonb *jsonb = DatumGetJsonbP(PointerGetDatum(given));
    rc->as_text = cstring_to_text(JsonbToCString(NULL, &jsonb->root, VARSIZE(jsonb)));
    rc->jsonb = memcpy(palloc(size), given, size);
    MemoryContextSwitchTo(before);
    return rc->as_text;
}

static void adopt_spec(FunctionCallInfo fcinfo, row_collector *rc, train_state *s) {
    collector *c = &rc->groups;
    if (PG_ARGISNULL(A_TASK))
        ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                        errmsg("%s: task is NULL, expected the name of one, such as 'linear' or "
                               "'logistic'",
                               c->name)));
    text *task = PG_GETARG_TEXT_PP(A_TASK);
    bool given = PG_NARGS() > A_OPTIONS && !PG_ARGISNULL(A_OPTIONS);
    text *options = given ? options_of(fcinfo, rc) : NULL;
    group_adopt(c, s, VARDATA_ANY(task), VARSIZE_ANY_EXHDR(task),
                given ? VARDATA_ANY(options) : "", given ? VARSIZE_ANY_EXHDR(options) : 0);
}

/* A row's weight and offset, where the function has such arguments. */
typedef struct row_extras {
    double weight, offset;
    tusk_extras given;
} row_extras;

/* False if one is NULL or the weight is 0, so that the row is skipped. */
static bool read_extras(FunctionCallInfo fcinfo, row_extras *e) {
    e->given = (tusk_extras){NULL, NULL};
    if (PG_NARGS() <= A_WEIGHT)
        return true;
    if (PG_ARGISNULL(A_WEIGHT) || (e->weight = PG_GETARG_FLOAT8(A_WEIGHT)) == 0)
        return false;
    e->given.weight = &e->weight;
    if (PG_NARGS() <= A_OFFSET)
        return true;
    if (PG_ARGISNULL(A_OFFSET))
        return false;
    e->offset = PG_GETARG_FLOAT8(A_OFFSET);
    e->given.offset = &e->offset;
    return true;
}

static int append(const collector *c, train_state *s, const feature_row *row, double y,
                  const row_extras *extras, tusk_fault *fault) {
    if (row->not_finite) {
        int64 at = row->not_finite - 1;
        *fault = (tusk_fault){.code = TUSK_NOT_FINITE,
                              .row = tusk_rows_seen(&s->block) + 1,
                              .position = row->not_finite,
                              .value = row->f64 ? ((const double *)row->values)[at]
                                                : (double)((const float *)row->values)[at]};
        return fault->code;
    }
    if (!row->sparse)
        return tusk_append_dense(c->memory, &s->block,
                                 &(tusk_dense_rows){.f64 = row->f64,
                                                    .x = row->values,
                                                    .y = &y,
                                                    .n = 1,
                                                    .d = row->n,
                                                    .raw = row->gaps,
                                                    .extras = extras->given},
                                 fault);
    if (row->n_index != row->n) {
        *fault = (tusk_fault){.code = TUSK_LENGTHS_DIFFER,
                              .row = tusk_rows_seen(&s->block) + 1,
                              .position = row->n_index,
                              .value = (double)row->n};
        return fault->code;
    }
    tusk_entries entries = {.wide = 1,
                            .f64 = row->f64,
                            .index = row->index,
                            .values = row->values,
                            .n = row->n,
                            .extras = extras->given};
    return tusk_append_sparse(c->memory, &s->block, &entries, y, fault);
}

/* The label as a number; a text becomes a code of the block's dictionary, unless it is a fault. */
static double read_label(FunctionCallInfo fcinfo, row_collector *rc, train_state *s,
                         const tusk_schema *schema, tusk_fault *fault) {
    *fault = (tusk_fault){.code = TUSK_OK};
    Datum label = PG_GETARG_DATUM(A_LABEL);
    if (!s->spec->labelled)
        return 0;
    if (!rc->text_labels) {
        bool rounded = false;
        double y = read_number_noted(label, rc->label, &rounded);
        if (rounded)
            tusk_remark_rounded(&s->remarks, TUSK_OF_LABEL, NULL);
        return y;
    }
    tusk_text text = read_text(label, rc->label, &rc->label_output);
    double y = 0;
    if (s->spec->ordered &&
        tusk_label_order(rc->groups.memory, &s->block, schema, rc->label_order, fault))
        return y;
    tusk_label_code(rc->groups.memory, &s->block, schema, text, &y, fault);
    return y;
}

/* Records the type of labels, and the levels before a row, so that a rejected row can be left
 * out. */
static void begin_row(const row_collector *rc, train_state *s) {
    s->block.booleans = rc->label == BOOLOID;
    if (s->spec->invalid == TUSK_INVALID_SKIP)
        tusk_parts_mark(&s->block);
}

/* Leaves a row with a fault out, or raises it, by the group's option `invalid`. */
static void leave_out(const collector *c, train_state *s, const tusk_fault *fault) {
    if (s->spec->invalid == TUSK_INVALID_SKIP)
        tusk_parts_undo(&s->block);
    if (!tusk_block_forgive(&s->block, s->spec->invalid, fault))
        refuse_fault(c->name, fault);
    tusk_remark_gap(&s->remarks, TUSK_OF_FAULT, NULL);
}

/* Leaves a row with a NULL out, and remarks on its columns. row: its columns; NULL: it has
   none. */
static void skip_row(FunctionCallInfo fcinfo, train_state *s, const tusk_named_chunk *row,
                     bool sparse) {
    s->block.n_skipped++;
    tusk_remarks *to = &s->remarks;
    if (s->block.flaw)
        return;
    if (s->spec->labelled && PG_ARGISNULL(A_LABEL))
        tusk_remark_gap(to, TUSK_OF_LABEL, NULL);
    if (PG_NARGS() > A_WEIGHT && (PG_ARGISNULL(A_WEIGHT) || PG_GETARG_FLOAT8(A_WEIGHT) == 0))
        tusk_remark_gap(to, TUSK_OF_WEIGHT, NULL);
    if (PG_NARGS() > A_OFFSET && PG_ARGISNULL(A_OFFSET))
        tusk_remark_gap(to, TUSK_OF_OFFSET, NULL);
    if (PG_ARGISNULL(A_FEATURES))
        tusk_remark_gap(to, TUSK_OF_FEATURES, NULL);
    else if (row && s->spec->gaps == TUSK_KEEPS_NO_GAPS)
        tusk_named_gaps(row, 0, to);
    else if (!row && (sparse || s->spec->gaps != TUSK_KEEPS_GAPS))
        remark_gaps(PG_GETARG_DATUM(A_FEATURES), sparse, to);
}

/* Whether NaN counts as a NULL that is kept. */
static bool nan_is_gap(const group_spec *s) {
    return s->invalid == TUSK_INVALID_SKIP && s->gaps != TUSK_KEEPS_NO_GAPS;
}

static train_state *state_of(FunctionCallInfo fcinfo, row_collector *rc, MemoryContext context) {
    train_state *s = PG_ARGISNULL(A_STATE) ? group_new(&rc->groups, context)
                                           : (train_state *)PG_GETARG_POINTER(A_STATE);
    adopt_spec(fcinfo, rc, s);
    return s;
}

static feature_row read_features(Datum features, bool sparse, const group_spec *spec,
                                 row_collector *rc) {
    const char *name = rc->groups.name;
    if (sparse)
        return read_sparse(features, &rc->buffer, name);
    return spec->gaps == TUSK_KEEPS_GAPS ? read_gaps(features, nan_is_gap(spec), &rc->buffer, name)
                                         : read_dense(features, &rc->buffer, name, "features");
}

static void refuse_task(const collector *c, const train_state *s, const char *expected) {
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("%s: task '%s' %s", c->name, s->spec->task, expected)));
}

/* Whether a row lacks the label that its task needs; rejects one if its task takes none. */
static bool lacks_label(FunctionCallInfo fcinfo, const collector *c, const train_state *s) {
    if (s->spec->labelled)
        return PG_ARGISNULL(A_LABEL);
    if (!PG_ARGISNULL(A_LABEL))
        refuse_task(c, s, TUSK_NO_LABEL);
    return false;
}

static void append_words(FunctionCallInfo fcinfo, row_collector *rc, train_state *s,
                         const row_extras *extras) {
    collector *c = &rc->groups;
    tusk_fault fault;
    tusk_document document = read_document(&rc->documents, PG_GETARG_DATUM(A_FEATURES), c->name);
    document.extras = extras->given;
    begin_row(rc, s);
    if (tusk_append_document(c->memory, &s->block, &document, &fault))
        leave_out(c, s, &fault);
}

static Datum collect(FunctionCallInfo fcinfo, bool sparse) {
    MemoryContext context = aggregate_context(fcinfo);
    row_collector *rc = row_collector_of(fcinfo);
    collector *c = &rc->groups;
    train_state *s = state_of(fcinfo, rc, context);
    row_extras extras;
    feature_row row = {.null = lacks_label(fcinfo, c, s) || PG_ARGISNULL(A_FEATURES) ||
                               !read_extras(fcinfo, &extras) || s->block.flaw};
    if (!row.null && s->spec->documents && rc->by_word) {
        append_words(fcinfo, rc, s, &extras);
        PG_RETURN_POINTER(s);
    }
    if (!row.null && s->spec->documents && !sparse)
        refuse_task(c, s, TUSK_NEEDS_WORDS);
    if (!row.null)
        row = read_features(PG_GETARG_DATUM(A_FEATURES), sparse, s->spec, rc);
    if (row.null) {
        skip_row(fcinfo, s, NULL, sparse);
        PG_RETURN_POINTER(s);
    }
    tusk_fault fault;
    begin_row(rc, s);
    if (row.rounded)
        tusk_remark_rounded(&s->remarks, TUSK_OF_FEATURES, NULL);
    double y = read_label(fcinfo, rc, s, rc->text_labels, &fault);
    if (fault.code || append(c, s, &row, y, &extras, &fault))
        leave_out(c, s, &fault);
    PG_RETURN_POINTER(s);
}

PG_FUNCTION_INFO_V1(tuskml_collect_dense);
Datum tuskml_collect_dense(PG_FUNCTION_ARGS) {
    return collect(fcinfo, false);
}

PG_FUNCTION_INFO_V1(tuskml_collect_sparse);
Datum tuskml_collect_sparse(PG_FUNCTION_ARGS) {
    return collect(fcinfo, true);
}

/* Rows with names; a sentence for other types of features. */
PG_FUNCTION_INFO_V1(tuskml_collect_named);
Datum tuskml_collect_named(PG_FUNCTION_ARGS) {
    MemoryContext context = aggregate_context(fcinfo);
    if (!is_row_type(get_fn_expr_argtype(fcinfo->flinfo, A_FEATURES)))
        return refuse_features(fcinfo);
    row_collector *rc = row_collector_of(fcinfo);
    collector *c = &rc->groups;
    train_state *s = state_of(fcinfo, rc, context);
    const tusk_named_chunk *row = NULL;
    row_extras extras;
    bool lacks = lacks_label(fcinfo, c, s);
    if (!lacks && s->spec->documents)
        refuse_task(c, s, TUSK_NEEDS_WORDS);
    bool whole = !lacks && read_extras(fcinfo, &extras);
    if (!PG_ARGISNULL(A_FEATURES))
        row = read_named(&rc->reader, PG_GETARG_DATUM(A_FEATURES), c->name);
    if (!whole || !row || s->block.flaw ||
        (s->spec->gaps == TUSK_KEEPS_NO_GAPS && tusk_named_gap(row, 0))) {
        skip_row(fcinfo, s, row, false);
        PG_RETURN_POINTER(s);
    }
    tusk_fault fault;
    begin_row(rc, s);
    if (!s->spec->ids)
        tusk_named_rounded(row, 0, 1, &s->remarks);
    double y = read_label(fcinfo, rc, s, row->schema, &fault);
    tusk_named_chunk weighted = *row;
    weighted.extras = extras.given;
    if (fault.code || tusk_append_named(c->memory, &s->block, &weighted, 0, 1, &y,
                                        nan_is_gap(s->spec), s->spec->ids, &fault))
        leave_out(c, s, &fault);
    PG_RETURN_POINTER(s);
}

Datum finish_group(FunctionCallInfo fcinfo, enum tusk_request request) {
    aggregate_context(fcinfo);
    if (PG_ARGISNULL(A_STATE))
        PG_RETURN_NULL();
    train_state *s = (train_state *)PG_GETARG_POINTER(A_STATE);
    if (!s->done)
        train_groups(fcinfo, s, request);
    if (!s->result)
        PG_RETURN_NULL();
    return s->result;
}

PG_FUNCTION_INFO_V1(tuskml_train);
Datum tuskml_train(PG_FUNCTION_ARGS) {
    return finish_group(fcinfo, TUSK_TRAIN);
}

PG_FUNCTION_INFO_V1(tuskml_explain);
Datum tuskml_explain(PG_FUNCTION_ARGS) {
    return finish_group(fcinfo, TUSK_EXPLAIN);
}

PG_FUNCTION_INFO_V1(tuskml_send_rows);
Datum tuskml_send_rows(PG_FUNCTION_ARGS) {
    return finish_group(fcinfo, TUSK_SEND_ROWS);
}

PG_FUNCTION_INFO_V1(tuskml_take_model);
Datum tuskml_take_model(PG_FUNCTION_ARGS) {
    return finish_group(fcinfo, TUSK_TAKE_MODEL);
}

PG_FUNCTION_INFO_V1(tuskml_read_model);
Datum tuskml_read_model(PG_FUNCTION_ARGS) {
    return finish_group(fcinfo, TUSK_READ_MODEL);
}

PG_FUNCTION_INFO_V1(tuskml_write_sql);
Datum tuskml_write_sql(PG_FUNCTION_ARGS) {
    return finish_group(fcinfo, TUSK_WRITE_SQL);
}

PG_FUNCTION_INFO_V1(tuskml_pool);
Datum tuskml_pool(PG_FUNCTION_ARGS) {
    return finish_group(fcinfo, TUSK_POOL);
}
