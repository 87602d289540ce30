/* The checks of a model before it scores. */
#include <stdio.h>
#include <string.h>

#include "json_member.h"
#include "score.h"

#define MODEL_FORMAT 1
#define MODEL_PREFIX "{\"tuskml\":"

static const char *const TASK_NAMES[TUSK_TASKS] = {"linear", "logistic", "svm",
                                                   "matrix_factorization"};
static const char *const RESPONSE_NAMES[TUSK_RESPONSES] = {"identity", "exp", "logistic"};

static bool refuse(char *sentence, const char *text) {
    snprintf(sentence, TUSK_SENTENCE, "%s", text);
    return false;
}

/* How much of a text to quote: whole UTF-8 characters. */
static int quoted(const char *text, size_t length, size_t limit) {
    if (length <= limit)
        return (int)length;
    while (limit && (text[limit] & 0xc0) == 0x80)
        limit--;
    return (int)limit;
}

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
                 quoted(text, length, 20), text, prefix, MODEL_FORMAT);
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
             quoted(text + at, end - at, 20), text + at, TUSKML_VERSION, MODEL_FORMAT);
    return false;
}

static bool is_text(tusk_text given, const char *text) {
    return given.data && given.length == strlen(text) &&
           memcmp(given.data, text, given.length) == 0;
}

/* The options of a user's own task say how it predicts, its classes whether it has any: it does as
 * one of ours then. */
static bool read_own_task(const tusk_model_fields *m, tusk_scorer *s) {
    tusk_text response = tusk_json_member(m->options, "response");
    for (int r = 0; r < TUSK_RESPONSES; r++) {
        if (!is_text(response, RESPONSE_NAMES[r]))
            continue;
        bool classes = m->classes.n > 0;
        s->task = !classes ? TUSK_LINEAR : r == TUSK_INVERSE_LOGIT ? TUSK_LOGISTIC : TUSK_SVM;
        s->response = classes ? TUSK_IDENTITY : (enum tusk_response)r;
        return true;
    }
    return false;
}

static bool read_task(const tusk_model_fields *m, enum tusk_answer answer, tusk_scorer *s,
                      char *sentence) {
    tusk_text name = m->task;
    bool known = false;
    for (int t = 0; t < TUSK_TASKS && !known; t++) {
        known = is_text(name, TASK_NAMES[t]);
        s->task = (enum tusk_task)t;
    }
    known = known || (name.data && read_own_task(m, s));
    if (known && (answer != TUSK_PREDICT_PROBA || s->task == TUSK_LOGISTIC))
        return true;
    snprintf(sentence, TUSK_SENTENCE,
             answer == TUSK_PREDICT_PROBA
                 ? "model is '%.*s', only 'logistic' models give probabilities; use decision()"
                 : "model is '%.*s', expected 'linear', 'logistic', 'svm' or "
                   "'matrix_factorization'",
             name.data ? quoted(name.data, name.length, 40) : 0, name.data ? name.data : "");
    return false;
}

/* A count from 0 on that a double holds exactly, and small enough to be multiplied. */
static bool read_count(double given, uint64_t limit, uint64_t *count) {
    if (!(given >= 0 && given <= (double)limit))
        return false;
    *count = (uint64_t)given;
    return (double)*count == given;
}

static bool read_factors(const tusk_model_fields *m, tusk_factors *f, char *sentence) {
    const double *c = m->classes.items;
    tusk_text biases = tusk_json_member(m->options, "biases");
    f->biases = biases.length == 4 && memcmp(biases.data, "true", 4) == 0;
    if (m->classes.n == 3 && read_count(c[0], UINT64_C(1) << 40, &f->n_users) &&
        read_count(c[1], UINT64_C(1) << 40, &f->n_items) &&
        read_count(c[2], UINT64_C(1) << 20, &f->width) && f->width)
        return true;
    return refuse(sentence, "the classes of the model are not its numbers of users, of items and "
                            "of elements a vector");
}

static bool read_classes(const tusk_model_fields *m, tusk_scorer *s, char *sentence) {
    tusk_numbers classes = m->classes;
    if (s->task == TUSK_LINEAR)
        return true;
    if (s->task == TUSK_FACTORIZATION)
        return !classes.complete || read_factors(m, &s->factors, sentence);
    s->n_classes = classes.n;
    if (classes.n != 1 && classes.n != 2)
        return refuse(sentence, "the model has no classes, expected a list of one or two numbers");
    s->negative = classes.items[0];
    s->positive = classes.items[classes.n - 1];
    return true;
}

/* The reference to a store that the options name; they say null where there is none. */
static tusk_text read_store(const tusk_model_fields *m) {
    tusk_text store = tusk_json_member(m->options, "store");
    bool none = store.length == 4 && memcmp(store.data, "null", 4) == 0;
    return none ? (tusk_text){NULL, 0} : store;
}

static bool open_store(const tusk_model_fields *m, tusk_text store, tusk_scorer *s,
                       char *sentence) {
    sealed_error e;
    const tusk_stores *at = &m->stores;
    const char *root = at->readable ? at->readable(at, store.data, store.length, &e) : at->root;
    s->cache = at->cache;
    if (root || !at->readable || !at->root)
        s->stored = sealed_cache_acquire(s->cache, root, store.data, store.length, at->memory, &e);
    if (s->stored)
        return true;
    s->sqlstate = e.sqlstate;
    return refuse(sentence, e.text);
}

/* Without coefficients a model of one class says the same of every row, another one is in a store;
 * without an intercept too it says nothing. */
static bool read_coef(const tusk_model_fields *m, tusk_scorer *s, char *sentence) {
    s->intercept = m->has_intercept ? m->intercept : 0;
    s->coef = m->coef.items;
    s->n_coef = m->coef.n;
    s->null = !m->coef.complete || !m->classes.complete;
    if (s->null || s->n_coef)
        return true;
    tusk_text store = read_store(m);
    if (store.data)
        return open_store(m, store, s, sentence);
    s->null = !m->has_intercept;
    if (s->null || s->n_classes == 1)
        return true;
    return refuse(sentence, "the model has no coefficients, and its options name no store");
}

/* Whether there are as many coefficients as the vectors of users and items have. */
static bool check_factors(tusk_scorer *s, char *sentence) {
    if (s->task != TUSK_FACTORIZATION || s->null)
        return true;
    uint64_t found = s->n_coef;
    uint64_t expected = (s->factors.n_users + s->factors.n_items) * s->factors.width;
    if (s->stored) { /* which ends with the last that is not 0 */
        sealed_about about;
        sealed_file_describe(s->stored, &about);
        found = about.dimension < expected ? expected : about.dimension;
    }
    if (found == expected)
        return true;
    snprintf(sentence, TUSK_SENTENCE,
             "the model has %llu coefficients, its users and items have %llu",
             (unsigned long long)found, (unsigned long long)expected);
    return false;
}

bool tusk_read_model(const tusk_model_fields *m, enum tusk_answer answer, tusk_scorer *s,
                     char *sentence) {
    *s = (tusk_scorer){.null = false};
    if (check_format(m->options, sentence) && read_task(m, answer, s, sentence) &&
        read_classes(m, s, sentence) && read_coef(m, s, sentence) && check_factors(s, sentence))
        return true;
    tusk_forget_model(s);
    return false;
}

void tusk_forget_model(tusk_scorer *s) {
    if (s->stored)
        sealed_cache_release(s->cache, s->stored);
    s->stored = NULL;
}
