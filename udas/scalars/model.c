/* The checks of a model before it scores. */
#include <stdio.h>
#include <string.h>

#include "score.h"

#define MODEL_FORMAT 1
#define MODEL_PREFIX "{\"tuskml\":"

static const char *const TASK_NAMES[TUSK_TASKS] = {"linear", "logistic", "svm"};

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

static bool read_task(tusk_text name, enum tusk_answer answer, tusk_scorer *s, char *sentence) {
    for (int t = 0; name.data && t < TUSK_TASKS; t++) {
        if (name.length != strlen(TASK_NAMES[t]) ||
            memcmp(name.data, TASK_NAMES[t], name.length) != 0)
            continue;
        s->task = (enum tusk_task)t;
        if (answer != TUSK_PREDICT_PROBA || s->task == TUSK_LOGISTIC)
            return true;
    }
    snprintf(sentence, TUSK_SENTENCE,
             answer == TUSK_PREDICT_PROBA
                 ? "model is '%.*s', only 'logistic' models give probabilities; use decision()"
                 : "model is '%.*s', expected 'linear', 'logistic' or 'svm'",
             name.data ? quoted(name.data, name.length, 40) : 0, name.data ? name.data : "");
    return false;
}

static bool read_classes(tusk_numbers classes, tusk_scorer *s, char *sentence) {
    if (s->task == TUSK_LINEAR)
        return true;
    s->n_classes = classes.n;
    if (classes.n != 1 && classes.n != 2)
        return refuse(sentence, "the model has no classes, expected a list of one or two numbers");
    s->negative = classes.items[0];
    s->positive = classes.items[classes.n - 1];
    return true;
}

/* Without coefficients a model of one class says the same of every row, another one is in a store;
 * without an intercept too it says nothing. */
static bool read_coef(const tusk_model_fields *m, tusk_scorer *s, char *sentence) {
    s->intercept = m->has_intercept ? m->intercept : 0;
    s->coef = m->coef.items;
    s->n_coef = m->coef.n;
    s->null = (!s->n_coef && !m->has_intercept) || !m->coef.complete || !m->classes.complete;
    if (s->null || s->n_coef || s->n_classes == 1)
        return true;
    return refuse(
        sentence,
        "the model has no coefficients: it lies in a store, which this version of tuskml lacks");
}

bool tusk_read_model(const tusk_model_fields *m, enum tusk_answer answer, tusk_scorer *s,
                     char *sentence) {
    *s = (tusk_scorer){.null = false};
    return check_format(m->options, sentence) && read_task(m->task, answer, s, sentence) &&
           read_classes(m->classes, s, sentence) && read_coef(m, s, sentence);
}
