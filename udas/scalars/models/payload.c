/* Payloads of models: writes them from the checked fields of a model, and opens them. */
#include "payload.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../kvstore/mapped/crc32c.h"
#include "../named/preparation.h"
#include "../topics/topics.h"
#include "json_member.h"
#include "kinds.h"
#include "note.h"
#include "quoted.h"

#define MODEL_FORMAT 1
#define MODEL_PREFIX "{\"tuskml\":"
#define LONGEST_NAME 64 /* bytes of a task's name to keep for error sentences */

static const char MAGIC[4] = {'T', 'U', 'S', 'K'};
static const char *const RESPONSE_NAMES[TUSK_RESPONSES] = {"identity", "exp", "logistic"};

static bool refuse(char *sentence, const char *text) {
    snprintf(sentence, TUSK_SENTENCE, "%s", text);
    return false;
}

/* --- the fields of a model --- */

static tusk_text text_of(const tusk_strings *s, int64_t i) {
    const char *text = s->code[i] < 0 ? NULL : s->pool[s->code[i]];
    return (tusk_text){text, text ? strlen(text) : 0};
}

static tusk_numbers numbers_of(const tusk_lists *l, int64_t i) {
    const double *items = l->values + l->offsets[i];
    uint64_t n = (uint64_t)(l->offsets[i + 1] - l->offsets[i]), missing = 0;
    for (uint64_t k = 0; k < n; k++)
        missing += items[k] != items[k];
    return (tusk_numbers){items, n, !missing};
}

static bool is_text(tusk_text given, const char *text) {
    return given.data && given.length == strlen(text) &&
           memcmp(given.data, text, given.length) == 0;
}

/* Whether the name of a class says its number: a boolean's are 'false' and 'true'. */
static bool names_number(tusk_text name, double number) {
    char text[64], *end;
    if (is_text(name, "false") || is_text(name, "true"))
        return number == (name.data[0] == 't');
    if (!name.length || name.length >= sizeof text)
        return false;
    memcpy(text, name.data, name.length);
    text[name.length] = 0;
    return strtod(text, &end) == number && !*end;
}

bool tusk_has_text_classes(const tusk_class_names *names, tusk_numbers classes) {
    for (uint64_t k = 0; k < names->n && k < classes.n; k++) {
        tusk_text name = names->text_at(names->names, names->first + k);
        if (name.data && !names_number(name, classes.items[k]))
            return true;
    }
    return false;
}

static tusk_text pooled_name(const void *names, uint64_t k) {
    const char *name = ((const char *const *)names)[k];
    return (tusk_text){name, strlen(name)};
}

static tusk_class_names class_names_of(const tusk_models *m, int64_t i) {
    int32_t code = m->class_names.code[i];
    if (code < 0)
        return (tusk_class_names){0};
    int64_t first = m->class_names.begin[code], end = m->class_names.begin[code + 1];
    return (tusk_class_names){pooled_name, m->class_names.pool, (uint64_t)first,
                              (uint64_t)(end - first)};
}

tusk_model_fields tusk_fields_of(const tusk_models *m, int64_t i) {
    return (tusk_model_fields){
        .task = text_of(&m->task, i),
        .options = text_of(&m->options, i),
        .preparation = text_of(&m->preparation, i),
        .coef = numbers_of(&m->coef, i),
        .classes = numbers_of(&m->classes, i),
        .spread = numbers_of(&m->spread, i),
        .class_names = class_names_of(m, i),
        .has_intercept = m->intercept[i] == m->intercept[i],
        .intercept = m->intercept[i],
    };
}

/* --- checks of the fields --- */

/* The options of a model begin with the version of its format. */
static bool check_format(tusk_text options, char *sentence) {
    static const char prefix[] = MODEL_PREFIX;
    const char *text = options.data;
    size_t length = options.length, at = sizeof prefix - 1;
    if (!text)
        return refuse(sentence, "the model has no options, which carry its format version: it is "
                                "not one of train_model");
    if (length <= at || memcmp(text, prefix, at) != 0) {
        snprintf(sentence, TUSK_SENTENCE,
                 "the options of the model begin with '%.*s', expected '%s%d'",
                 tusk_quoted(text, length, 20), text, prefix, MODEL_FORMAT);
        return false;
    }
    size_t end = at;
    while (end < length && text[end] >= '0' && text[end] <= '9')
        end++;
    if (end == at + 1 && text[at] == '0' + MODEL_FORMAT)
        return true;
    if (end == at)
        end = length;
    snprintf(sentence, TUSK_SENTENCE,
             "the model has format version %.*s, this tuskml %s reads version %d",
             tusk_quoted(text + at, end - at, 20), text + at, TUSKML_VERSION, MODEL_FORMAT);
    return false;
}

/* For a custom task, the options define its prediction, and `classes` whether it has classes.
 * From then on it is treated like a built-in task. */
static bool read_own_task(const tusk_model_fields *m, tusk_payload_head *h) {
    tusk_text response = tusk_json_member(m->options, "response");
    for (int r = 0; r < TUSK_RESPONSES; r++) {
        if (!is_text(response, RESPONSE_NAMES[r]))
            continue;
        bool classes = m->classes.n > 0;
        h->task = !classes ? TUSK_LINEAR : r == TUSK_INVERSE_LOGIT ? TUSK_LOGISTIC : TUSK_SVM;
        h->response = classes ? TUSK_IDENTITY : (uint8_t)r;
        return true;
    }
    return false;
}

/* The response by the link that the options name; 0, of the identity, for none of them. */
static uint8_t response_of_link(tusk_text link) {
    static const struct {
        const char *name;
        enum tusk_response response;
    } links[] = {{"log", TUSK_EXP},
                 {"inverse", TUSK_INVERSE},
                 {"sqrt", TUSK_SQUARE},
                 {"inverse_squared", TUSK_INVERSE_ROOT},
                 {"probit", TUSK_NORMAL_SHARE},
                 {"cloglog", TUSK_CLOGLOG_SHARE}};
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        if (is_text(link, links[i].name))
            return (uint8_t)links[i].response;
    return TUSK_IDENTITY;
}

static bool read_task(const tusk_model_fields *m, tusk_payload_head *h, char *sentence) {
    tusk_text name = m->task;
    const tusk_task_row *known = tusk_task_named(name);
    if (known) {
        h->task = (uint8_t)known->kind;
        h->response = (uint8_t)known->response;
        if (h->task == TUSK_ORDINAL && m->classes.n < 2) /* a level that all rows have */
            h->task = TUSK_LOGISTIC;
        const tusk_task_row *objective =
            h->task == TUSK_BOOSTED ? tusk_task_named(tusk_json_member(m->options, "objective"))
                                    : NULL;
        if (objective) /* the loss of a linear task, which has its response */
            h->response = (uint8_t)objective->response;
        tusk_text link = tusk_json_member(m->options, "link");
        if (link.data && known->test != TUSK_UNTESTED)
            h->response = response_of_link(link);
        return true;
    }
    if (name.data && read_own_task(m, h))
        return true;
    int length = snprintf(sentence, TUSK_SENTENCE, "model is '%.*s', expected ",
                          name.data ? tusk_quoted(name.data, name.length, 40) : 0,
                          name.data ? name.data : "");
    tusk_list_tasks(sentence, length);
    return false;
}

static bool read_factors(const tusk_model_fields *m, tusk_payload_head *h, char *sentence) {
    tusk_text biases = tusk_json_member(m->options, "biases");
    if (biases.length == 4 && memcmp(biases.data, "true", 4) == 0)
        h->flags |= TUSK_HAS_BIASES;
    tusk_factors checked;
    if (m->classes.n == 3 && tusk_read_factors(m->classes.items, &checked))
        return true;
    return refuse(sentence, TUSK_NO_FACTORS);
}

/* The reference to a store that the options name; null in the options if there is none. */
static tusk_text read_store(const tusk_model_fields *m) {
    tusk_text store = tusk_json_member(m->options, "store");
    bool none = store.length == 4 && memcmp(store.data, "null", 4) == 0;
    return none ? (tusk_text){NULL, 0} : store;
}

static void set_store(tusk_payload_parts *p, tusk_text store) {
    p->store = store;
    p->head.store_length = (uint32_t)store.length;
    p->head.flags |= store.data ? TUSK_IN_STORE : 0;
}

/* More than two classes, whose labels are in the payload's weights. */
static bool read_many_classes(const tusk_model_fields *m, tusk_payload_parts *p, char *sentence) {
    tusk_numbers classes = m->classes, coef = m->coef;
    bool whole = tusk_kind_of(p->head.task)->shares_weights;
    p->head.task = whole ? p->head.task : TUSK_MULTINOMIAL;
    p->head.flags |= whole ? TUSK_HAS_LABELS : 0;
    p->head.format = TUSK_PAYLOAD_LATER;
    if (!coef.complete || !classes.complete) {
        p->head.flags |= TUSK_HAS_NULLS;
        return true;
    }
    p->head.classes[0] = (double)classes.n;
    p->head.n_weights = classes.n + coef.n;
    p->labels = classes.items;
    p->weights = coef.items;
    if (!whole && !coef.n)
        set_store(p, read_store(m));
    if (p->store.data && classes.n > TUSK_MOST_OUTPUTS) {
        snprintf(sentence, TUSK_SENTENCE, "the model has %llu classes, a store has %d at most",
                 (unsigned long long)classes.n, TUSK_MOST_OUTPUTS);
        return false;
    }
    if (p->store.data || whole || (coef.n && coef.n % classes.n == 0))
        return true; /* those of a net or of trees are checked with their layers or nodes */
    snprintf(sentence, TUSK_SENTENCE,
             "the model has %llu coefficients, expected as many for each of its %llu classes",
             (unsigned long long)coef.n, (unsigned long long)classes.n);
    return false;
}

static bool read_classes(const tusk_model_fields *m, tusk_payload_head *h, char *sentence) {
    tusk_numbers classes = m->classes;
    const tusk_model_kind *kind = tusk_kind_of(h->task);
    bool factors = h->task == TUSK_FACTORIZATION;
    if (!factors && !kind->classifies && !(kind->either && classes.n))
        return true;
    if (factors && !classes.complete)
        return true;
    if (factors ? !read_factors(m, h, sentence) : classes.n != 1 && classes.n != 2)
        return factors ? false
                       : refuse(sentence,
                                "the model has no classes, expected a list of one or two numbers");
    h->n_classes = (uint8_t)classes.n;
    memcpy(h->classes, classes.items, classes.n * sizeof(double));
    return true;
}

/* A model without coefficients is either in a store, or has one class or no tree and predicts the
 * same for every row. If it has no intercept either, it cannot predict. */
static bool read_coef(const tusk_model_fields *m, tusk_payload_parts *p, char *sentence) {
    tusk_payload_head *h = &p->head;
    h->intercept = m->has_intercept ? m->intercept : 0;
    h->flags |= m->has_intercept ? TUSK_HAS_INTERCEPT : 0;
    if (!m->coef.complete || !m->classes.complete) {
        h->flags |= TUSK_HAS_NULLS;
        return true;
    }
    p->weights = m->coef.items;
    h->n_weights = m->coef.n;
    if (!m->coef.n)
        set_store(p, read_store(m));
    if (m->coef.n || p->store.data || !m->has_intercept || tusk_kind_of(h->task)->either ||
        (h->task != TUSK_FACTORIZATION && h->n_classes == 1))
        return true;
    return refuse(sentence, "the model has no coefficients, and its options name no store");
}

static bool add_preparation(tusk_text json, tusk_payload_parts *p, char *sentence) {
    if (!tusk_preparation_of(json, &p->preparation, sentence))
        return false;
    p->head.format = TUSK_PAYLOAD_LATER;
    p->head.flags |= TUSK_BY_NAME;
    return true;
}

/* Converts trees to their compact form, if that can hold them. */
static void compact_trees(tusk_payload_parts *p) {
    tusk_payload_head *h = &p->head;
    uint64_t labels = tusk_labels_in(h), bytes;
    if (h->task != TUSK_BOOSTED || h->flags & TUSK_HAS_NULLS || h->n_weights <= labels)
        return;
    uint64_t outputs = h->flags & TUSK_HAS_LABELS ? labels : 1;
    p->compact = tusk_compact_of(p->weights, h->n_weights - labels, outputs, &bytes);
    if (!p->compact)
        return;
    h->n_weights = labels + bytes / sizeof(double);
    h->flags |= TUSK_HAS_COMPACT_TREES;
    h->format = TUSK_PAYLOAD_COMPACT;
}

/* Whether there are as many weights as the model needs. */
static bool check_weights(const tusk_payload_parts *p, char *sentence) {
    const tusk_payload_head *h = &p->head;
    if (!h->n_weights)
        return true;
    const tusk_model_kind *kind = tusk_kind_of(h->task);
    bool several = h->flags & TUSK_HAS_LABELS;
    uint64_t labels = tusk_labels_in(h), outputs = several ? labels : 1;
    const tusk_weight *weights = (const tusk_weight *)p->weights;
    uint64_t n = h->n_weights - labels;
    bool null = h->flags & TUSK_HAS_NULLS && h->task != TUSK_FACTORIZATION;
    if (!kind->check || null || (kind->shares_weights && several && !n))
        return true;
    return kind->check(h->classes, weights, n, outputs, sentence);
}

static bool read_the_rest(const tusk_model_fields *m, tusk_payload_parts *p, char *sentence) {
    bool many = tusk_kind_of(p->head.task)->shares_weights || is_text(m->task, "logistic");
    if (many && (m->classes.n > 2 || p->head.task == TUSK_ORDINAL))
        return read_many_classes(m, p, sentence);
    return read_classes(m, &p->head, sentence) && read_coef(m, p, sentence);
}

static double number_of(tusk_text options, const char *name, double usual) {
    tusk_text given = tusk_json_member(options, name);
    char text[32] = "";
    if (!given.data || given.length >= sizeof text)
        return usual;
    memcpy(text, given.data, given.length);
    return strtod(text, NULL);
}

/* What the numbers in the field `spread` of a model are for, by its options. */
static enum tusk_band_kind spread_kind(const tusk_model_fields *m) {
    tusk_text calibration = tusk_json_member(m->options, "calibration");
    return is_text(tusk_json_member(m->options, "intervals"), "covariance") ? TUSK_COVARIANCE
           : is_text(tusk_json_member(m->options, "conformal"), "true")     ? TUSK_CONFORMAL
           : is_text(calibration, "platt")                                  ? TUSK_PLATT
           : is_text(calibration, "isotonic")                               ? TUSK_ISOTONIC
                                                                            : TUSK_NO_SPREAD;
}

/* The numbers for intervals and calibrated probabilities, which a model has with the option
 * `intervals`, `conformal` or `calibration`. */
static bool read_spread(const tusk_model_fields *m, tusk_payload_parts *p, char *sentence) {
    enum tusk_band_kind kind = spread_kind(m);
    tusk_payload_head *h = &p->head;
    const tusk_task_row *task = tusk_task_named(m->task);
    if (kind == TUSK_NO_SPREAD || h->flags & TUSK_HAS_NULLS || tusk_labels_in(h))
        return true;
    h->format = TUSK_PAYLOAD_INTERVALS;
    h->n_spread = 1;
    if (tusk_absorbed_in(m->options).n) {
        p->about_spread[0] = TUSK_ABSORBED;
        return true;
    }
    p->about_spread[0] = kind > TUSK_CONFORMAL ? kind : TUSK_NO_SPREAD;
    if (!m->spread.n)
        return true;
    uint64_t terms = m->coef.n + 1;
    uint64_t expected = kind == TUSK_COVARIANCE ? terms * (terms + 1) / 2
                        : kind == TUSK_PLATT    ? 2
                                                : m->spread.n / 2 * 2;
    if (!m->spread.complete || m->spread.n != expected) {
        snprintf(sentence, TUSK_SENTENCE,
                 "the field spread of the model has %llu numbers, expected %llu and no NULL",
                 (unsigned long long)m->spread.n, (unsigned long long)expected);
        return false;
    }
    bool student = task && task->test == TUSK_STUDENT;
    p->about_spread[0] = kind;
    p->about_spread[1] = student ? number_of(m->options, "freedom", NAN) : INFINITY;
    p->about_spread[2] = number_of(m->options, "residual_variance", NAN);
    p->spread = m->spread.items;
    h->n_spread = TUSK_ABOUT_SPREAD + (uint32_t)m->spread.n;
    return true;
}

/* A group whose rows are invalid has a model of its task that predicts NULL. */
static bool has_invalid_rows(const tusk_model_fields *m) {
    return is_text(tusk_json_member(m->options, "invalid_rows"), "true");
}

bool tusk_payload_of(const tusk_model_fields *m, tusk_payload_parts *p, char *sentence) {
    *p = (tusk_payload_parts){.head = {.format = TUSK_PAYLOAD_FORMAT}};
    memcpy(p->head.magic, MAGIC, sizeof MAGIC);
    if (!check_format(m->options, sentence) || !read_task(m, &p->head, sentence))
        return false;
    if (has_invalid_rows(m) && p->head.task == TUSK_TOPICS)
        return refuse(sentence, "no topics were trained, since rows of the group are invalid");
    if (has_invalid_rows(m))
        p->head.flags |= TUSK_HAS_NULLS;
    else if (!read_the_rest(m, p, sentence))
        return false;
    if (tusk_has_text_classes(&m->class_names, m->classes))
        p->head.flags |= TUSK_HAS_TEXT_CLASSES;
    p->name = m->task;
    p->name.length = (size_t)tusk_quoted(m->task.data, m->task.length, LONGEST_NAME);
    p->head.name_length = (uint16_t)p->name.length;
    if (!check_weights(p, sentence) ||
        (m->preparation.data && !add_preparation(m->preparation, p, sentence)))
        return false;
    if (tusk_kind_of(p->head.task)->format)
        p->head.format = tusk_kind_of(p->head.task)->format;
    compact_trees(p);
    if (read_spread(m, p, sentence))
        return true;
    tusk_payload_free(p);
    return false;
}

static bool same_text(tusk_text a, tusk_text b) {
    return a.length == b.length &&
           (a.data == b.data || (a.data && b.data && memcmp(a.data, b.data, a.length) == 0));
}

bool tusk_payload_again(const tusk_model_fields *m, const tusk_model_fields *before,
                        tusk_payload_parts *p) {
    tusk_payload_head *h = &p->head;
    if (h->flags != TUSK_HAS_INTERCEPT || h->format != TUSK_PAYLOAD_FORMAT || h->n_classes ||
        tusk_kind_of(h->task)->check || h->n_weights != m->coef.n || !m->coef.n ||
        !m->coef.complete || !m->has_intercept || m->classes.n || m->class_names.n ||
        m->preparation.data || !same_text(m->task, before->task) ||
        !same_text(m->options, before->options))
        return false;
    h->intercept = m->intercept;
    p->weights = m->coef.items;
    p->name.data = m->task.data;
    return true;
}

void tusk_payload_free(tusk_payload_parts *p) {
    free((char *)p->preparation.data);
    free(p->compact);
    p->preparation = (tusk_text){NULL, 0};
    p->compact = NULL;
}

/* --- the bytes --- */

static size_t size_of(const tusk_payload_head *h) {
    return sizeof *h + (h->n_weights + h->n_spread) * sizeof(double) + h->store_length +
           h->name_length;
}

size_t tusk_payload_size(const tusk_payload_parts *p) {
    return size_of(&p->head) + p->preparation.length;
}

static uint32_t crc_of(const char *bytes, size_t length) {
    size_t at = offsetof(tusk_payload_head, crc), behind = at + sizeof(uint32_t);
    return tusk_crc32c(tusk_crc32c(0, bytes, at), bytes + behind, length - behind);
}

/* Writes the numbers for intervals; returns where they end. */
static char *write_spread(const tusk_payload_parts *p, char *at) {
    uint32_t n = p->head.n_spread, about = n < TUSK_ABOUT_SPREAD ? n : TUSK_ABOUT_SPREAD;
    memcpy(at, p->about_spread, about * sizeof(double));
    if (n > about)
        memcpy(at + about * sizeof(double), p->spread, (n - about) * sizeof(double));
    return at + n * sizeof(double);
}

void tusk_payload_write(const tusk_payload_parts *p, char *out) {
    const tusk_payload_head *h = &p->head;
    char *at = out + sizeof *h;
    memcpy(out, h, sizeof *h);
    uint64_t labels = tusk_labels_in(h);
    if (labels)
        memcpy(at, p->labels, labels * sizeof(double));
    if (h->n_weights)
        memcpy(at + labels * sizeof(double), p->compact ? p->compact : (const char *)p->weights,
               (h->n_weights - labels) * sizeof(double));
    at += h->n_weights * sizeof(double);
    at = write_spread(p, at);
    if (h->store_length)
        memcpy(at, p->store.data, h->store_length);
    memcpy(at + h->store_length, p->name.data, h->name_length);
    if (p->preparation.length)
        memcpy(at + h->store_length + h->name_length, p->preparation.data, p->preparation.length);
    uint32_t crc = crc_of(out, tusk_payload_size(p));
    memcpy(out + offsetof(tusk_payload_head, crc), &crc, sizeof crc);
}

static bool refuse_damage(char *sentence, const char **sqlstate) {
    *sqlstate = "XX001";
    return refuse(sentence,
                  "the payload of the model is damaged: restore the model from a backup, "
                  "or renew the payload from its other fields by with_payload(model)");
}

/* Whether there are as many weights for each of several classes. */
static bool whole_classes(const tusk_payload_head *h) {
    bool labels = h->flags & TUSK_HAS_LABELS;
    const tusk_model_kind *kind = tusk_kind_of(h->task);
    bool whole = kind->shares_weights;
    /* If predictions are NULL, the number of labels before the trees is unknown. */
    if (h->flags & TUSK_HAS_COMPACT_TREES &&
        (h->task != TUSK_BOOSTED || h->flags & TUSK_HAS_NULLS))
        return false;
    if ((kind->either || kind->has_centres) && h->flags & TUSK_IN_STORE)
        return false;
    if ((h->task != TUSK_MULTINOMIAL && !labels) || h->flags & TUSK_HAS_NULLS)
        return !labels || whole;
    bool stored = h->flags & TUSK_IN_STORE; /* then the labels are all */
    if (stored && !(h->classes[0] == (double)h->n_weights && h->n_weights <= TUSK_MOST_OUTPUTS))
        return false;
    uint64_t least = h->task == TUSK_ORDINAL ? 2 : 3;
    if (!(h->classes[0] >= least && (stored || h->classes[0] < (double)h->n_weights)))
        return false;
    uint64_t n = (uint64_t)h->classes[0];
    return (double)n == h->classes[0] && (labels ? whole : h->n_weights % n == 0);
}

bool tusk_payload_open(tusk_text bytes, tusk_payload_view *v, char *sentence,
                       const char **sqlstate) {
    tusk_payload_head *h = &v->head;
    if (bytes.length < sizeof *h || memcmp(bytes.data, MAGIC, sizeof MAGIC) != 0)
        return refuse_damage(sentence, sqlstate);
    memcpy(h, bytes.data, sizeof *h);
    if (h->format < TUSK_PAYLOAD_FORMAT || h->format > TUSK_PAYLOAD_LATEST) {
        *sqlstate = "0A000";
        snprintf(sentence, TUSK_SENTENCE,
                 "the payload of the model has format %d, and this tuskml %s reads formats %d to "
                 "%d: train the model again or upgrade tuskml",
                 h->format, TUSKML_VERSION, TUSK_PAYLOAD_FORMAT, TUSK_PAYLOAD_LATEST);
        return false;
    }
    if (h->n_weights > bytes.length / sizeof(double) || bytes.length < size_of(h) ||
        (h->format < TUSK_PAYLOAD_INTERVALS && h->n_spread) ||
        (bytes.length > size_of(h) && !(h->flags & TUSK_BY_NAME)) ||
        h->crc != crc_of(bytes.data, bytes.length) || h->task >= TUSK_TASKS ||
        h->response >= TUSK_ALL_RESPONSES || h->n_classes > tusk_kind_of(h->task)->most_classes ||
        !whole_classes(h))
        return refuse_damage(sentence, sqlstate);
    const char *at = bytes.data + sizeof *h;
    v->weights = (const tusk_weight *)at;
    at += h->n_weights * sizeof(double);
    v->spread = (const tusk_weight *)at;
    at += h->n_spread * sizeof(double);
    v->store = (tusk_text){h->flags & TUSK_IN_STORE ? at : NULL, h->store_length};
    v->name = (tusk_text){at + h->store_length, h->name_length};
    v->preparation = (tusk_text){v->name.data + h->name_length, bytes.length - size_of(h)};
    tusk_preparation_head head;
    if ((h->flags & TUSK_BY_NAME) && !tusk_preparation_open(v->preparation, &head))
        return refuse_damage(sentence, sqlstate);
    return true;
}

const char *tusk_made_smaller(const tusk_payload_head *head) {
    return tusk_kind_of(head->task)->smaller;
}

/* --- trees --- */

bool tusk_has_compact_trees(tusk_text bytes) {
    tusk_payload_head head;
    if (bytes.length < sizeof head)
        return false;
    memcpy(&head, bytes.data, sizeof head);
    return head.task == TUSK_BOOSTED && head.flags & TUSK_HAS_COMPACT_TREES;
}

bool tusk_compact_trees_of(tusk_text bytes, tusk_compact *trees, char *sentence,
                           const char **sqlstate) {
    tusk_payload_view v;
    if (!tusk_payload_open(bytes, &v, sentence, sqlstate))
        return false;
    uint64_t labels = tusk_labels_in(&v.head);
    uint64_t outputs = v.head.flags & TUSK_HAS_LABELS ? labels : 1;
    return tusk_compact_open((const char *)(v.weights + labels),
                             (v.head.n_weights - labels) * sizeof(double), outputs, trees) ||
           refuse_damage(sentence, sqlstate);
}
