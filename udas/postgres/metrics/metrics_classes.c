/* The metrics that count labels and predicted classes: precision_score, recall_score, f1_score
 * and confusion. */
#include "metrics.h"

#include "catalog/pg_type.h"
#include "utils/memutils.h"

#include "../../scalars/metrics/classes.h"

typedef struct classes_state {
    enum tusk_class_metric metric;
    tusk_classes classes;
} classes_state;

/* Message of parallel workers: this header, then for each pair its header and the bytes of both
 * classes. */
typedef struct classes_image {
    int32 metric, type, average, weighted;
} classes_image;

typedef struct pair_image {
    int64 n;
    double weight;
    uint32 label, predicted; /* lengths in bytes */
} pair_image;

static classes_state *state_new(MemoryContext context, enum tusk_class_metric metric) {
    classes_state *s = MemoryContextAllocZero(context, sizeof *s);
    s->metric = metric;
    return s;
}

/* --- rows --- */

/* Whether the fourth argument names the positive class. */
static bool names_class(FunctionCallInfo fcinfo) {
    return types_of(fcinfo->flinfo)->fourth == TEXTOID;
}

static bool class_at(FunctionCallInfo fcinfo, const char *metric, int argument, Oid type,
                     tusk_class *c, char *sentence) {
    const char *name = argument == A_LABEL ? "label" : "predicted";
    if (names_class(fcinfo))
        return tusk_class_number(c, is_positive(fcinfo, argument, type, A_FOURTH, metric), name,
                                 sentence);
    if (type != TEXTOID)
        return tusk_class_number(c, read_class(fcinfo, argument, type, metric), name, sentence);
    const text *t = PG_GETARG_TEXT_PP(argument);
    return tusk_class_text(c, VARDATA_ANY(t), VARSIZE_ANY_EXHDR(t), name, sentence);
}

static enum tusk_class_type type_of(const row_types *types) {
    if (types->fourth == TEXTOID)
        return TUSK_BOOLEAN_CLASS;
    if (types->label == TEXTOID)
        return TUSK_TEXT_CLASS;
    return types->label == BOOLOID && types->predicted == BOOLOID ? TUSK_BOOLEAN_CLASS
                                                                  : TUSK_NUMBER_CLASS;
}

/* The index of the weight argument, if there is one. */
static int weight_place(FunctionCallInfo fcinfo, enum tusk_class_metric metric) {
    return metric == TUSK_CONFUSION ? A_THIRD : names_class(fcinfo) ? A_FIFTH : A_FOURTH;
}

static bool average_at(FunctionCallInfo fcinfo, enum tusk_class_metric metric,
                       enum tusk_average *average, char *sentence) {
    if (metric == TUSK_CONFUSION) { /* confusion does not average */
        *average = TUSK_MACRO;
        return true;
    }
    const text *t = has_argument(fcinfo, A_THIRD) ? PG_GETARG_TEXT_PP(A_THIRD) : NULL;
    return tusk_average_of(t ? VARDATA_ANY(t) : NULL, t ? VARSIZE_ANY_EXHDR(t) : 0, average,
                           sentence) &&
           (!names_class(fcinfo) || tusk_one_class(*average, sentence));
}

static bool take_row(FunctionCallInfo fcinfo, classes_state *s, double weight, char *sentence) {
    const row_types *types = types_of(fcinfo->flinfo);
    const char *name = tusk_class_metric_name(s->metric);
    enum tusk_average average;
    tusk_class label, predicted;
    s->classes.weighted = PG_NARGS() > weight_place(fcinfo, s->metric);
    return average_at(fcinfo, s->metric, &average, sentence) &&
           tusk_classes_are(&s->classes, type_of(types), average, sentence) &&
           class_at(fcinfo, name, A_LABEL, types->label, &label, sentence) &&
           class_at(fcinfo, name, A_PREDICTED, types->predicted, &predicted, sentence) &&
           tusk_classes_add(&s->classes, &label, &predicted, (tusk_counts){1, weight},
                            growth_in(aggregate_context(fcinfo)), sentence);
}

static Datum take(FunctionCallInfo fcinfo, enum tusk_class_metric metric) {
    MemoryContext context = aggregate_context(fcinfo);
    classes_state *s = state_at(fcinfo, A_STATE);
    double weight;
    if (!has_row(fcinfo) || (names_class(fcinfo) && PG_ARGISNULL(A_FOURTH)) ||
        !read_weight(fcinfo, weight_place(fcinfo, metric), &weight))
        return give_state(fcinfo, s);
    if (!s)
        s = state_new(context, metric);
    char sentence[TUSK_SENTENCE];
    if (!take_row(fcinfo, s, weight, sentence))
        refuse_row(tusk_class_metric_name(metric), sentence);
    PG_RETURN_POINTER(s);
}

#define DEFINE_TAKE(name, metric)    \
    PG_FUNCTION_INFO_V1(name);       \
    Datum name(PG_FUNCTION_ARGS) {   \
        return take(fcinfo, metric); \
    }

DEFINE_TAKE(tuskml_precision_score, TUSK_PRECISION)
DEFINE_TAKE(tuskml_recall_score, TUSK_RECALL)
DEFINE_TAKE(tuskml_f1_score, TUSK_F1)
DEFINE_TAKE(tuskml_confusion, TUSK_CONFUSION)

/* --- results --- */

static void *work_for(const classes_state *s) {
    return MemoryContextAllocHuge(CurrentMemoryContext, tusk_classes_work(&s->classes));
}

PG_FUNCTION_INFO_V1(tuskml_classes_number);
Datum tuskml_classes_number(PG_FUNCTION_ARGS) {
    aggregate_context(fcinfo);
    const classes_state *s = state_at(fcinfo, A_STATE);
    if (!s)
        PG_RETURN_NULL();
    void *work = work_for(s);
    bool null;
    double score = tusk_classes_score(&s->classes, s->metric, work, &null);
    pfree(work);
    if (null)
        PG_RETURN_NULL();
    PG_RETURN_FLOAT8(score);
}

PG_FUNCTION_INFO_V1(tuskml_classes_table);
Datum tuskml_classes_table(PG_FUNCTION_ARGS) {
    aggregate_context(fcinfo);
    const classes_state *s = state_at(fcinfo, A_STATE);
    if (!s)
        PG_RETURN_NULL();
    array_writer *w = array_begin(fcinfo, tusk_confusion_table(s->classes.weighted));
    tusk_classes_write(&s->classes, work_for(s), array_rows(w));
    return array_end(w);
}

/* --- parallel workers --- */

PG_FUNCTION_INFO_V1(tuskml_classes_combine);
Datum tuskml_classes_combine(PG_FUNCTION_ARGS) {
    MemoryContext context = aggregate_context(fcinfo);
    classes_state *target = state_at(fcinfo, 0);
    const classes_state *source = state_at(fcinfo, 1);
    if (!source)
        return give_state(fcinfo, target);
    if (!target)
        target = state_new(context, source->metric);
    char sentence[TUSK_SENTENCE];
    if (!tusk_classes_merge(&target->classes, &source->classes, growth_in(context), sentence))
        refuse_row(tusk_class_metric_name(source->metric), sentence);
    PG_RETURN_POINTER(target);
}

static Size image_size(const tusk_classes *s) {
    Size bytes = VARHDRSZ + sizeof(classes_image);
    for (int64 i = 0; i < s->n_pairs; i++)
        bytes += sizeof(pair_image) + s->names[s->pairs[i].label].length +
                 s->names[s->pairs[i].predicted].length;
    return bytes;
}

static char *put(char *at, const void *bytes, Size n) {
    if (n)
        memcpy(at, bytes, n);
    return at + n;
}

PG_FUNCTION_INFO_V1(tuskml_classes_serialize);
Datum tuskml_classes_serialize(PG_FUNCTION_ARGS) {
    aggregate_context(fcinfo);
    const classes_state *state = state_at(fcinfo, 0);
    const tusk_classes *s = &state->classes;
    Size bytes = image_size(s);
    bytea *image = palloc(bytes);
    SET_VARSIZE(image, bytes);
    classes_image head = {state->metric, s->type, s->average, s->weighted};
    char *at = put(VARDATA(image), &head, sizeof head);
    for (int64 i = 0; i < s->n_pairs; i++) {
        tusk_class label = tusk_class_of(s, s->pairs[i].label);
        tusk_class predicted = tusk_class_of(s, s->pairs[i].predicted);
        pair_image pair = {s->pairs[i].n, s->pairs[i].weight, label.length, predicted.length};
        at = put(at, &pair, sizeof pair);
        at = put(at, label.bytes, label.length);
        at = put(at, predicted.bytes, predicted.length);
    }
    PG_RETURN_BYTEA_P(image);
}

/* Adds a pair's rows; returns NULL if the bytes are not a valid pair. */
static const char *read_pair(tusk_classes *s, const char *at, const char *end) {
    pair_image pair;
    if ((Size)(end - at) < sizeof pair)
        return NULL;
    memcpy(&pair, at, sizeof pair);
    at += sizeof pair;
    Size least = s->type == TUSK_TEXT_CLASS ? 0 : sizeof(uint64);
    if (pair.label < least || pair.predicted < least ||
        (Size)(end - at) < (Size)pair.label + pair.predicted)
        return NULL;
    tusk_class label = {.bytes = at, .length = pair.label};
    tusk_class predicted = {.bytes = at + pair.label, .length = pair.predicted};
    char sentence[TUSK_SENTENCE];
    if (!tusk_classes_add(s, &label, &predicted, (tusk_counts){pair.n, pair.weight},
                          growth_in(CurrentMemoryContext), sentence))
        return NULL;
    return at + pair.label + pair.predicted;
}

static bool read_head(classes_state *s, const classes_image *head) {
    s->classes.type = head->type;
    s->classes.average = head->average;
    s->classes.weighted = head->weighted;
    s->metric = (enum tusk_class_metric)head->metric;
    return head->metric >= 0 && head->metric < TUSK_CLASS_METRICS &&
           head->type >= TUSK_BOOLEAN_CLASS && head->type <= TUSK_TEXT_CLASS &&
           head->average >= TUSK_BINARY && head->average <= TUSK_MICRO;
}

PG_FUNCTION_INFO_V1(tuskml_classes_deserialize);
Datum tuskml_classes_deserialize(PG_FUNCTION_ARGS) {
    aggregate_context(fcinfo);
    const bytea *image = PG_GETARG_BYTEA_PP(0);
    const char *at = VARDATA_ANY(image), *end = at + VARSIZE_ANY_EXHDR(image);
    classes_state *s = state_new(CurrentMemoryContext, TUSK_CONFUSION);
    classes_image head;
    bool good = (Size)(end - at) >= sizeof head;
    if (good) {
        memcpy(&head, at, sizeof head);
        good = read_head(s, &head);
    }
    at += sizeof head;
    while (good && at && at < end)
        at = read_pair(&s->classes, at, end);
    if (!good || !at)
        ereport(ERROR, (errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
                        errmsg("tuskml: %zu bytes are no counts of classes",
                               (size_t)VARSIZE_ANY_EXHDR(image))));
    PG_RETURN_POINTER(s);
}
