/* Turns a model's payload into a scorer of rows. */
#include <stdio.h>
#include <stdlib.h>

#include "../explaining/contributions.h"
#include "interval.h"
#include "kinds.h"
#include "payload.h"
#include "quoted.h"

static bool refuse(char *sentence, const char *text) {
    snprintf(sentence, TUSK_SENTENCE, "%s", text);
    return false;
}

/* Reads a count, from 0 on, that a double holds exactly and that is small enough to be
 * multiplied. */
static bool read_count(double given, uint64_t limit, uint64_t *count) {
    if (!(given >= 0 && given <= (double)limit))
        return false;
    *count = (uint64_t)given;
    return (double)*count == given;
}

bool tusk_read_factors(const double counts[3], tusk_factors *f) {
    return read_count(counts[0], UINT64_C(1) << 40, &f->n_users) &&
           read_count(counts[1], UINT64_C(1) << 40, &f->n_items) &&
           read_count(counts[2], UINT64_C(1) << 20, &f->width) && f->width;
}

bool tusk_check_factors(const double counts[3], uint64_t found, char *sentence) {
    tusk_factors f;
    if (!tusk_read_factors(counts, &f))
        return refuse(sentence, TUSK_NO_FACTORS);
    uint64_t expected = (f.n_users + f.n_items) * f.width;
    if (found == expected)
        return true;
    snprintf(sentence, TUSK_SENTENCE,
             "the model has %llu coefficients, its users and items have %llu",
             (unsigned long long)found, (unsigned long long)expected);
    return false;
}

static bool open_store(const tusk_stores *at, tusk_text store, tusk_scorer *s, char *sentence) {
    sealed_error e;
    const char *root = at->readable ? at->readable(at, store.data, store.length, &e) : at->root;
    s->cache = at->cache;
    if (root || !at->readable || !at->root)
        s->stored = sealed_cache_acquire(s->cache, root, store.data, store.length, at->memory, &e);
    if (s->stored)
        return true;
    s->sqlstate = e.sqlstate;
    return refuse(sentence, e.text);
}

/* The file of a factorization ends with the last nonzero element. */
static bool check_stored(const tusk_payload_head *h, tusk_scorer *s, char *sentence) {
    if (s->task != TUSK_FACTORIZATION)
        return true;
    sealed_about about;
    sealed_file_describe(s->stored, &about);
    uint64_t expected = (s->factors.n_users + s->factors.n_items) * s->factors.width;
    uint64_t found = about.dimension < expected ? expected : about.dimension;
    return tusk_check_factors(h->classes, found, sentence);
}

static bool read_task(const tusk_payload_view *v, enum tusk_answer answer, tusk_scorer *s,
                      char *sentence) {
    const tusk_payload_head *h = &v->head;
    s->task = (enum tusk_task)h->task;
    s->response = (enum tusk_response)h->response;
    const tusk_model_kind *kind = tusk_kind_of(h->task);
    s->classifies = kind->classifies || (kind->either && h->n_classes > 0);
    if (s->task == TUSK_FACTORIZATION) {
        s->factors.biases = h->flags & TUSK_HAS_BIASES;
        return (h->flags & TUSK_HAS_NULLS) || tusk_read_factors(h->classes, &s->factors) ||
               refuse(sentence, TUSK_NO_FACTORS);
    }
    s->negative = h->classes[0];
    s->positive = h->classes[h->n_classes == 2];
    s->n_classes = h->n_classes;
    s->places = answer == TUSK_PREDICT_CLASS;
    s->measures = answer == TUSK_DECISION;
    if (s->places) {
        s->negative = 1;
        s->positive = h->n_classes == 2 ? 2 : 1;
    }
    return true;
}

/* Ordered levels have one margin, whose weights follow the thresholds. */
static void read_cuts(tusk_scorer *s) {
    uint64_t n = s->n_classes - 1;
    s->cuts = s->coef;
    s->coef += n;
    s->n_coef -= n;
    s->intercept = 0;
    if (s->n_classes == 2) { /* the higher one is the positive class */
        s->negative = s->places ? 1 : s->labels[0];
        s->positive = s->places ? 2 : s->labels[1];
    }
}

static void read_weights(const tusk_payload_view *v, tusk_scorer *s) {
    s->intercept = v->head.intercept;
    s->coef = v->weights;
    s->n_coef = v->head.n_weights;
    s->preparation = v->preparation;
    if (s->task != TUSK_MULTINOMIAL && !(v->head.flags & TUSK_HAS_LABELS))
        return;
    s->n_classes = tusk_labels_in(&v->head);
    s->labels = v->weights;
    s->coef = v->weights + s->n_classes;
    if (tusk_kind_of(v->head.task)->shares_weights)
        s->n_coef = v->head.n_weights - s->n_classes;
    else
        s->n_coef = s->n_classes ? v->head.n_weights / s->n_classes - 1 : 0;
    if (s->task == TUSK_ORDINAL && s->n_coef >= s->n_classes)
        read_cuts(s);
}

/* Whether probabilities follow from held-out rows, of which there may have been none. */
static bool is_calibrated(const tusk_payload_view *v) {
    return v->head.n_spread && v->spread[0] >= TUSK_PLATT;
}

/* Whether margins of two classes are turned into probabilities. */
static bool has_probabilities(const tusk_payload_view *v, const tusk_scorer *s) {
    return s->classifies && (tusk_kind_of(v->head.task)->probabilities || is_calibrated(v));
}

/* Whether a model can give intervals; several: of more than two classes. */
static bool check_interval(const tusk_payload_view *v, bool several, char *sentence) {
    if (is_calibrated(v))
        return refuse(sentence,
                      "the model keeps calibrated probabilities, which have no interval");
    if (several)
        return refuse(sentence, "the model has more than two classes, whose probabilities have no "
                                "interval; model_covariance(model) has that of its coefficients");
    if (v->head.n_spread && v->spread[0] == TUSK_ABSORBED)
        return refuse(sentence, "the levels that the model absorbed have no standard errors, so "
                                "that its predictions have no interval: train it without option "
                                "'absorb'");
    return v->head.n_spread ||
           refuse(sentence, "the model does not keep what intervals are computed from, train "
                            "it with the option \"intervals\": \"covariance\", or of any "
                            "task of numbers \"conformal\": true");
}

/* Whether the rows of a model have marginal effects. */
static bool check_effects(const tusk_payload_view *v, char *sentence) {
    bool linear = v->head.task == TUSK_LINEAR || v->head.task == TUSK_LOGISTIC;
    if (v->head.task == TUSK_MULTINOMIAL)
        return refuse(sentence, "the model has more than two classes, expected one of numbers or "
                                "of two classes");
    if (is_calibrated(v))
        return refuse(sentence, "the model keeps calibrated probabilities, expected one that was "
                                "trained without the option calibration");
    if (linear && !v->store.data)
        return true;
    snprintf(
        sentence, TUSK_SENTENCE,
        "model is '%.*s'%s, expected a linear or generalized linear model, of numbers or with "
        "probabilities, whose coefficients lie in no store; partial_dependence() takes others",
        tusk_quoted(v->name.data, v->name.length, 40), v->name.data,
        v->store.data ? " in a store" : "");
    return false;
}

/* Whether the answer is a list where there are more than two classes, each of which has a
 * probability, and a margin too unless they are ordered. */
static bool needs_lists(const tusk_payload_view *v, enum tusk_answer answer, bool several) {
    bool ordered = v->head.task == TUSK_ORDINAL;
    return several && ((answer == TUSK_PREDICT_PROBA && !(ordered && v->head.classes[0] == 2)) ||
                       (answer == TUSK_DECISION && !ordered));
}

/* Whether a model of this task can give the answer. */
static bool check_answer(const tusk_payload_view *v, enum tusk_answer answer, const tusk_scorer *s,
                         char *sentence) {
    bool several = s->task == TUSK_MULTINOMIAL || v->head.flags & TUSK_HAS_LABELS;
    const tusk_model_kind *kind = tusk_kind_of(v->head.task);
    bool two = has_probabilities(v, s);
    if (answer == TUSK_MARGINAL_EFFECTS && !(kind->refuses & 1u << answer))
        return check_effects(v, sentence);
    if (needs_lists(v, answer, several))
        return refuse(sentence, "the model has more than two classes, expected "
                                "predict_proba(model, features, class) or "
                                "predict_probas(model, features)");
    const char *name = v->name.data;
    int length = tusk_quoted(name, v->name.length, 40);
    if (kind->refuses & 1u << answer) {
        snprintf(sentence, TUSK_SENTENCE, "model is '%.*s', %s", length, name, kind->instead);
        return false;
    }
    if ((answer == TUSK_PREDICT_PROBA || answer == TUSK_PREDICT_PROBAS) && !two && !several) {
        snprintf(sentence, TUSK_SENTENCE,
                 kind->either ? "model is '%.*s' of numbers, only models of classes give "
                                "probabilities; use predict()"
                              : "model is '%.*s', which gives no probabilities; "
                                "use decision()",
                 length, name);
        return false;
    }
    if (answer == TUSK_PREDICT && v->head.flags & TUSK_HAS_TEXT_CLASSES)
        return refuse(sentence, "the classes of the model are texts that are no numbers; use "
                                "predict_class(model, features)");
    if (answer == TUSK_EXPLAIN_PREDICTION && (!kind->explains || v->store.data)) {
        snprintf(
            sentence, TUSK_SENTENCE,
            "model is '%.*s'%s, expected trees, a net, a factorization machine or a linear model "
            "whose coefficients lie in no store",
            length, name, v->store.data ? " in a store" : "");
        return false;
    }
    if (answer == TUSK_PREDICT_INTERVAL)
        return check_interval(v, several, sentence);
    if (answer == TUSK_PREDICT_CLASS && !s->classifies && !several) {
        snprintf(sentence, TUSK_SENTENCE, "model is '%.*s', which has no classes; use predict()",
                 length, name);
        return false;
    }
    return true;
}

static bool open_compact(tusk_scorer *s, char *sentence) {
    uint64_t outputs = s->labels ? s->n_classes : 1;
    s->is_compact =
        tusk_compact_open((const char *)s->coef, s->n_coef * sizeof(double), outputs, &s->trees);
    return s->is_compact ||
           refuse(sentence, "the coefficients of the model are not the nodes of its trees");
}

/* Whether there are as many coefficients as the model needs. */
static bool check_sizes(const tusk_payload_head *h, tusk_scorer *s, char *sentence) {
    if (h->flags & TUSK_HAS_COMPACT_TREES)
        return open_compact(s, sentence);
    const tusk_model_kind *kind = tusk_kind_of(h->task);
    if (!kind->check || (!s->n_coef && !s->labels && !kind->reads_store))
        return true;
    uint64_t cuts = s->cuts ? s->n_classes - 1 : 0;
    return kind->check(h->classes, s->coef - cuts, s->n_coef + cuts, s->labels ? s->n_classes : 1,
                       sentence);
}

/* A model that saw one class, and does not know whether it is the higher one of two, has no
 * margin. It is certain of that class. */
static bool says_class(enum tusk_answer answer, tusk_scorer *s) {
    s->intercept = 1000;
    return answer == TUSK_PREDICT || answer == TUSK_PREDICT_CLASS || answer == TUSK_PREDICT_PROBAS;
}

/* Whether a model with two classes lacks the held-out rows that its probabilities follow from. */
static bool lacks_probabilities(const tusk_payload_view *v, enum tusk_answer answer) {
    bool wanted = answer == TUSK_PREDICT_PROBA || answer == TUSK_PREDICT_PROBAS;
    return wanted && v->head.n_classes == 2 && is_calibrated(v) &&
           v->head.n_spread <= TUSK_ABOUT_SPREAD;
}

bool tusk_read_model(tusk_text payload, const tusk_stores *stores, enum tusk_answer answer,
                     tusk_scorer *s, char *sentence) {
    tusk_payload_view v;
    *s = (tusk_scorer){.null = false};
    if (!tusk_payload_open(payload, &v, sentence, &s->sqlstate) ||
        !read_task(&v, answer, s, sentence))
        return false;
    s->null = v.head.flags & TUSK_HAS_NULLS && !v.head.n_weights && !v.head.n_classes;
    if (s->null) /* as for a group with invalid rows, whose result is always NULL */
        return true;
    if (!check_answer(&v, answer, s, sentence))
        return false;
    read_weights(&v, s);
    bool has_intercept = v.head.flags & TUSK_HAS_INTERCEPT;
    bool says_nothing = !s->n_coef && !v.store.data && !has_intercept;
    if (s->classifies && v.head.n_classes == 1 && !has_intercept)
        says_nothing = !says_class(answer, s);
    s->list_size = s->n_classes;
    s->null = (v.head.flags & TUSK_HAS_NULLS) || says_nothing || lacks_probabilities(&v, answer);
    if (s->null)
        return true;
    s->explains = answer == TUSK_EXPLAIN_PREDICTION;
    if (!tusk_read_spread(&v, answer, s, sentence))
        return false;
    if (!v.store.data)
        return check_sizes(&v.head, s, sentence) &&
               (!s->explains || tusk_size_explanations(s, sentence));
    if (open_store(stores, v.store, s, sentence) && check_stored(&v.head, s, sentence))
        return true;
    tusk_forget_model(s);
    return false;
}

void tusk_forget_model(tusk_scorer *s) {
    if (s->stored)
        sealed_cache_release(s->cache, s->stored);
    s->stored = NULL;
    free(s->average);
    s->average = NULL;
    s->averaged = false;
}
