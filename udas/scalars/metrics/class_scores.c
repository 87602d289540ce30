/* Metrics computed from counts of label and predicted class. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "classes.h"
#include "shares.h"
#include "sum.h"

static const char *const NAMES[TUSK_CLASS_METRICS] = {
    [TUSK_PRECISION] = "precision_score",
    [TUSK_RECALL] = "recall_score",
    [TUSK_F1] = "f1_score",
    [TUSK_CONFUSION] = "confusion",
};

const char *tusk_class_metric_name(enum tusk_class_metric metric) {
    return NAMES[metric];
}

/* A class, its index in the order, and the weights of rows with it as the label, as the
 * prediction, or both. */
typedef struct counted {
    const char *bytes;
    uint32_t length, name;
    double labels, predictions, both;
} counted;

/* Pairs, sorted by the order of their classes. */
typedef struct placed {
    uint32_t label, predicted;
    tusk_counts counts;
} placed;

size_t tusk_classes_work(const tusk_classes *s) {
    return (size_t)s->n_names * (sizeof(counted) + sizeof(uint32_t)) +
           (size_t)s->n_pairs * sizeof(placed) + sizeof(int64_t);
}

static int compare_classes(const void *a, const void *b) {
    const counted *x = a, *y = b;
    uint32_t shorter = x->length < y->length ? x->length : y->length;
    int order = memcmp(x->bytes, y->bytes, shorter);
    return order ? order : (x->length > y->length) - (x->length < y->length);
}

/* All classes with their counts, in order. */
static counted *count_classes(const tusk_classes *s, void *work) {
    counted *classes = work;
    for (int64_t i = 0; i < s->n_names; i++)
        classes[i] = (counted){
            .bytes = s->bytes + s->names[i].at, .length = s->names[i].length, .name = (uint32_t)i};
    for (const tusk_pair *p = s->pairs; p < s->pairs + s->n_pairs; p++) {
        classes[p->label].labels += p->weight;
        classes[p->predicted].predictions += p->weight;
        if (p->label == p->predicted)
            classes[p->label].both += p->weight;
    }
    qsort(classes, (size_t)s->n_names, sizeof *classes, compare_classes);
    return classes;
}

/* --- scores --- */

/* Numerator and denominator of a class's score. */
static void parts(const counted *c, enum tusk_class_metric metric, double *part, double *whole) {
    bool f1 = metric == TUSK_F1;
    *part = f1 ? 2 * c->both : c->both;
    *whole =
        (metric != TUSK_RECALL ? c->predictions : 0) + (metric != TUSK_PRECISION ? c->labels : 0);
}

/* A class without a score counts as 0. */
static double score_of(const counted *c, enum tusk_class_metric metric) {
    double part, whole;
    parts(c, metric, &part, &whole);
    return whole > 0 ? part / whole : 0;
}

/* The score of the positive class, which is the last one, and is 1. */
static double binary(const tusk_classes *s, const counted *classes, enum tusk_class_metric metric,
                     bool *null) {
    tusk_class one;
    char sentence[TUSK_SENTENCE];
    tusk_class_number(&one, 1, "", sentence);
    const counted *last = classes + s->n_names - 1;
    double part = 0, whole = 0;
    if (!memcmp(last->bytes, tusk_class_bytes(&one), one.length))
        parts(last, metric, &part, &whole);
    *null = !(whole > 0);
    return *null ? 0 : part / whole;
}

static double averaged(const tusk_classes *s, const counted *classes,
                       enum tusk_class_metric metric) {
    tusk_sum sum = {0};
    double weights = 0;
    for (const counted *c = classes; c < classes + s->n_names; c++) {
        double weight = s->average == TUSK_MACRO ? 1 : c->labels;
        tusk_sum_add(&sum, s->average == TUSK_MICRO ? c->both : weight * score_of(c, metric));
        weights += weight;
    }
    return tusk_sum_total(&sum) / weights;
}

double tusk_classes_score(const tusk_classes *s, enum tusk_class_metric metric, void *work,
                          bool *null) {
    *null = !s->n_pairs;
    if (*null)
        return 0;
    const counted *classes = count_classes(s, work);
    return s->average == TUSK_BINARY ? binary(s, classes, metric, null)
                                     : averaged(s, classes, metric);
}

/* --- confusion --- */

static const tusk_table COUNTED = {
    3, {{"label", TUSK_TEXT_CELL}, {"predicted", TUSK_TEXT_CELL}, {"n", TUSK_WHOLE_CELL}}};
static const tusk_table WEIGHTED = {4,
                                    {{"label", TUSK_TEXT_CELL},
                                     {"predicted", TUSK_TEXT_CELL},
                                     {"n", TUSK_WHOLE_CELL},
                                     {"weight", TUSK_NUMBER_CELL}}};

const tusk_table *tusk_confusion_table(bool weighted) {
    return weighted ? &WEIGHTED : &COUNTED;
}

static int compare_pairs(const void *a, const void *b) {
    const placed *x = a, *y = b;
    if (x->label != y->label)
        return x->label < y->label ? -1 : 1;
    return (x->predicted > y->predicted) - (x->predicted < y->predicted);
}

static double number_of(const counted *c) {
    uint64_t key = 0;
    for (size_t i = 0; i < sizeof key; i++)
        key = key << 8 | (unsigned char)c->bytes[i];
    return tusk_of_key(key);
}

static tusk_cell cell_of(const tusk_classes *s, const counted *c) {
    tusk_cell cell = {0};
    if (s->type == TUSK_TEXT_CLASS) {
        cell.words = c->bytes;
        cell.length = (int32_t)c->length;
        return cell;
    }
    double x = number_of(c);
    if (s->type == TUSK_BOOLEAN_CLASS)
        strcpy(cell.own, x ? "true" : "false");
    else
        tusk_name_number(x, cell.own);
    cell.length = (int32_t)strlen(cell.own);
    return cell;
}

bool tusk_classes_write(const tusk_classes *s, void *work, tusk_writer to) {
    const counted *classes = count_classes(s, work);
    placed *pairs = (placed *)((counted *)work + s->n_names);
    uint32_t *places = (uint32_t *)(pairs + s->n_pairs);
    for (uint32_t i = 0; i < (uint32_t)s->n_names; i++)
        places[classes[i].name] = i;
    for (int64_t i = 0; i < s->n_pairs; i++) {
        const tusk_pair *p = s->pairs + i;
        pairs[i] = (placed){places[p->label], places[p->predicted], {p->n, p->weight}};
    }
    qsort(pairs, (size_t)s->n_pairs, sizeof *pairs, compare_pairs);
    for (const placed *p = pairs; p < pairs + s->n_pairs; p++) {
        const tusk_row row = {cell_of(s, classes + p->label), cell_of(s, classes + p->predicted),
                              tusk_whole(p->counts.n), tusk_number(p->counts.weight)};
        if (!to.write(row, to.context))
            return false;
    }
    return true;
}
