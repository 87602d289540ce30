#include "judge.h"

#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../clusters/clusters.h"
#include "../metrics/classes.h"
#include "../metrics/curves.h"
#include "../metrics/heap.h"
#include "../metrics/metric.h"
#include "../metrics/scored.h"
#include "../models/payload.h"
#include "../named/words.h"
#include "../topics/topics.h"

#define EXPORTED __attribute__((visibility("default")))

/* The selected one of the kinds of metrics; the other numbers are -1. */
typedef struct which_metric {
    int sum, ranking, classes;
    bool perplexity, silhouette;
} which_metric;

/* A metric of one group while its rows are read. */
typedef struct judged {
    which_metric which;
    double parameter;
    tusk_scorer scorer;
    enum tusk_answer answer;
    double *answers; /* for one segment's rows; for lists, list_size per row */
    tusk_score sums;
    tusk_scored scored;
    tusk_classes counted;
    double silhouettes, weights; /* the weighted sum of silhouettes, and of weights */
    char *sentence;
    const tusk_judging *how;
    double *rows; /* for the next row; NULL: not requested */
    bool stopped;
    bool undefined; /* the metric is not defined for a prediction */
    bool alone;     /* the model knows one class, which it predicts with probability 1 */
} judged;

/* Rows between two checks whether to stop. */
enum { LOOK = 2048 };

/* Whether the evaluation is cancelled, checked before row i. */
static bool stops(judged *j, uint32_t i) {
    if (i % LOOK == 0 && j->how->cancels() != j->how->mark)
        j->stopped = true;
    return j->stopped;
}

static which_metric named(const char *name) {
    which_metric w = {-1, -1, -1, !strcmp(name, "perplexity"), !strcmp(name, "silhouette")};
    for (int k = 0; k < TUSK_METRICS; k++)
        if (!strcmp(name, tusk_metric_of((enum tusk_metric_kind)k)->name))
            w.sum = k;
    for (int k = TUSK_AUC; k <= TUSK_AVERAGE_PRECISION; k++)
        if (!strcmp(name, tusk_ranking_of((enum tusk_ranking_kind)k)->name))
            w.ranking = k;
    for (int k = TUSK_PRECISION; k <= TUSK_F1; k++)
        if (!strcmp(name, tusk_class_metric_name((enum tusk_class_metric)k)))
            w.classes = k;
    return w;
}

/* --- one row --- */

static bool by_chances(const judged *j) {
    return j->which.sum == TUSK_LOG_LOSS || j->which.sum == TUSK_BRIER;
}

/* The row of a label and the probabilities of all classes; 0 for a class that the model does
 * not know. */
static tusk_judged row_of_shares(const judged *j, double y, const double *p) {
    tusk_judged row = {.y = 1};
    for (uint64_t k = 0; k < j->scorer.list_size; k++) {
        if (j->scorer.labels[k] == y)
            row.p = p[k];
        else
            row.others += p[k] * p[k];
    }
    return row;
}

/* Whether a label is a class that the training of a model of one or two classes did not see. Such
 * a row is a wrong prediction in every metric, as one of a class without a column of probabilities
 * is (scikit-learn, issue 32748). */
static bool unseen(const judged *j, double y) {
    const tusk_scorer *s = &j->scorer;
    return tusk_has_classes(s) && !s->labels && y != s->negative && y != s->positive;
}

/* A row of an unseen class counts both as the lowest-ranked positive row and as the
 * highest-ranked negative one, as it is a false negative and a false positive. */
static bool take_ranked(judged *j, double y, double score, double weight) {
    const tusk_ranking *ranking = tusk_ranking_of((enum tusk_ranking_kind)j->which.ranking);
    bool other = unseen(j, y), high = !j->alone && y == j->scorer.positive;
    tusk_ranked row = {other || high, other ? -DBL_MAX : score, 0, weight};
    tusk_ranked again = {0, DBL_MAX, 0, weight};
    return tusk_scored_take(&j->scored, ranking, &row, tusk_heap, j->sentence) &&
           (!other || tusk_scored_take(&j->scored, ranking, &again, tusk_heap, j->sentence));
}

static bool count_class(judged *j, double y, double predicted, double weight) {
    tusk_class label, second;
    return tusk_class_number(&label, y, "label", j->sentence) &&
           tusk_class_number(&second, predicted, "predicted", j->sentence) &&
           tusk_classes_add(&j->counted, &label, &second, (tusk_counts){1, weight}, tusk_heap,
                            j->sentence);
}

/* Whether the classes are two, of which the higher one is the positive one. */
static bool has_two(const judged *j) {
    return !(j->scorer.labels && j->scorer.n_classes > 2) && !j->alone;
}

static bool take_class(judged *j, double y, double predicted, double weight) {
    bool two = has_two(j);
    if (!tusk_classes_are(&j->counted, TUSK_NUMBER_CLASS, two ? TUSK_BINARY : TUSK_MACRO,
                          j->sentence))
        return false;
    if (!two)
        return count_class(j, y, predicted, weight);
    if (unseen(j, y))
        return count_class(j, 1, 0, weight) && count_class(j, 0, 1, weight);
    /* averages for two classes need their usual numbers */
    return count_class(j, y == j->scorer.positive, predicted == j->scorer.positive, weight);
}

/* The row of a label that is one of two classes, of which the higher one has probability p, or
 * a class that the model does not know. */
static tusk_judged row_of_two(const judged *j, double y, double p) {
    double low = j->alone ? 0 : 1 - p;
    if (unseen(j, y))
        return (tusk_judged){.y = 1, .others = p * p + low * low};
    return (tusk_judged){.y = y == j->scorer.positive, .p = p};
}

/* A prediction for which the metric is not defined is due to the model, and leaves it without
 * the metric; such a label is due to the caller, and is rejected. */
static bool take_sum(judged *j, tusk_judged row) {
    const tusk_metric *metric = tusk_metric_of((enum tusk_metric_kind)j->which.sum);
    if (tusk_score_take(&j->sums, metric, &row, j->sentence))
        return true;
    row.p = 1; /* valid for any metric */
    j->undefined = true;
    return tusk_score_take(&j->sums, metric, &row, j->sentence);
}

/* The label, the answer and the weight of a row, as `tusk_judging` has them. */
static void note_row(judged *j, double y, double answer, double weight) {
    bool ranks = j->which.ranking >= 0, of_two = j->which.classes >= 0 && has_two(j);
    if (ranks || of_two)
        y = unseen(j, y) ? NAN : y == j->scorer.positive;
    *j->rows++ = y;
    *j->rows++ = ranks && j->alone ? NAN : of_two ? answer == j->scorer.positive : answer;
    *j->rows++ = weight;
}

static bool take(judged *j, double y, const double *answer, double weight) {
    if (j->which.silhouette) {
        j->silhouettes += weight * *answer;
        j->weights += weight;
        return true;
    }
    if (j->rows)
        note_row(j, y, *answer, weight);
    if (j->which.sum < 0 && !isfinite(*answer)) {
        j->undefined = true;
        return true;
    }
    if (j->which.ranking >= 0)
        return take_ranked(j, y, *answer, weight);
    if (j->which.classes >= 0)
        return take_class(j, y, *answer, weight);
    tusk_judged row = {.y = y, .p = *answer, .parameter = j->parameter};
    if (by_chances(j) && j->scorer.labels)
        row = row_of_shares(j, y, answer);
    else if (by_chances(j))
        row = row_of_two(j, y, *answer);
    row.weight = weight;
    return take_sum(j, row);
}

/* --- the rows of a segment --- */

/* n entries of a segment of sparse rows, from entry `at` on; size: of a value. */
static tusk_sparse_row sparse_row(const tusk_segment *s, uint64_t at, uint64_t n, size_t size) {
    return (tusk_sparse_row){.ids = tusk_indices(s) + at,
                             .values = (const char *)tusk_sparse_values(s) + at * size,
                             .n_ids = n,
                             .n_values = n};
}

static bool answer_lists(judged *j, const tusk_segment *s, tusk_shape shape) {
    tusk_scorer *scorer = &j->scorer;
    bool f64 = tusk_value_size(shape.kind) == sizeof(double), sparse = tusk_is_sparse(shape.kind);
    double *out = j->answers;
    for (uint32_t i = 0; i < s->n_rows; i++, out += scorer->list_size) {
        size_t size = tusk_value_size(shape.kind);
        uint64_t n = (uint64_t)shape.dim, at = n * i;
        tusk_sparse_row row = {0};
        if (sparse) {
            at = tusk_row_starts(s)[i];
            n = tusk_row_starts(s)[i + 1] - at;
            row = sparse_row(s, at, n, size);
        }
        const char *x = sparse ? row.values : (const char *)tusk_dense_values(s) + at * size;
        if (stops(j, i) || !tusk_list(scorer, sparse ? &row : NULL, x, f64, n, out, j->sentence))
            return false;
    }
    return true;
}

static bool dense_margins(judged *j, const tusk_segment *s, tusk_shape shape) {
    size_t size = tusk_value_size(shape.kind), width = (size_t)shape.dim * size;
    const char *x = tusk_dense_values(s);
    for (uint32_t i = 0; i < s->n_rows; i += LOOK) {
        uint32_t n = s->n_rows - i < LOOK ? s->n_rows - i : LOOK;
        if (stops(j, i) || !(j->which.silhouette ? tusk_silhouettes : tusk_margins)(
                               &j->scorer, x + i * width, size == sizeof(double),
                               (uint64_t)shape.dim, n, j->answers + i, j->sentence))
            return false;
    }
    return true;
}

static bool margins_of(judged *j, const tusk_segment *s, tusk_shape shape) {
    size_t size = tusk_value_size(shape.kind);
    bool f64 = size == sizeof(double);
    if (!tusk_is_sparse(shape.kind))
        return dense_margins(j, s, shape);
    for (uint32_t i = 0; i < s->n_rows; i++) {
        uint32_t at = tusk_row_starts(s)[i], n = tusk_row_starts(s)[i + 1] - at;
        tusk_sparse_row row = sparse_row(s, at, n, size);
        if (stops(j, i) || !(j->which.silhouette ? tusk_sparse_silhouette : tusk_sparse_margin)(
                               &j->scorer, &row, f64, j->answers + i, j->sentence))
            return false;
    }
    return true;
}

/* The results of a model that knows one class: the class, its probability or a margin. */
static bool answer_alone(judged *j, const tusk_segment *s) {
    for (uint32_t i = 0; i < s->n_rows; i++)
        j->answers[i] = by_chances(j) ? 1 : j->which.ranking >= 0 ? 0 : j->scorer.positive;
    return true;
}

static bool answers_of(judged *j, const tusk_segment *s, tusk_shape shape) {
    if (j->alone)
        return answer_alone(j, s);
    if (tusk_answers_lists(j->answer))
        return answer_lists(j, s, shape);
    if (!margins_of(j, s, shape))
        return false;
    const double *offset = tusk_extra(s, shape, TUSK_OFFSETS);
    for (uint32_t i = 0; offset && i < s->n_rows; i++)
        j->answers[i] += offset[i];
    if (j->answer == TUSK_PREDICT)
        tusk_to_predictions(&j->scorer, j->answers, s->n_rows);
    else if (j->answer == TUSK_PREDICT_PROBA)
        tusk_to_probabilities(&j->scorer, j->answers, s->n_rows);
    return true;
}

static bool judge_segment(judged *j, const tusk_segment *s, tusk_shape shape) {
    size_t each = tusk_answers_lists(j->answer) ? j->scorer.list_size : 1;
    j->answers = malloc((s->n_rows + !s->n_rows) * each * sizeof(double));
    if (!j->answers) {
        snprintf(j->sentence, TUSK_SENTENCE, "out of memory");
        return false;
    }
    const double *y = tusk_labels(s), *weight = tusk_extra(s, shape, TUSK_WEIGHTS);
    bool done = answers_of(j, s, shape);
    for (uint32_t i = 0; done && i < s->n_rows; i++)
        done = take(j, y[i], j->answers + i * each, weight ? weight[i] : 1);
    free(j->answers);
    return done;
}

/* --- a group --- */

static double give_ranking(const judged *j, bool *null) {
    uint64_t *work = malloc(tusk_scored_work(&j->scored) + 1);
    if (!work)
        return NAN;
    tusk_ranks ranks = tusk_rank(&j->scored, work, NULL);
    double found =
        tusk_ranks_number(&ranks, (enum tusk_ranking_kind)j->which.ranking, TUSK_ALL_ROWS, null);
    free(work);
    return found;
}

static double give_classes(const judged *j, bool *null) {
    void *work = malloc(tusk_classes_work(&j->counted) + 1);
    if (!work)
        return NAN;
    double found =
        tusk_classes_score(&j->counted, (enum tusk_class_metric)j->which.classes, work, null);
    free(work);
    return found;
}

static double give(const judged *j) {
    bool null = false;
    if (j->which.silhouette)
        return j->weights > 0 ? j->silhouettes / j->weights : NAN;
    double found = j->which.ranking >= 0 ? give_ranking(j, &null)
                   : j->which.classes >= 0
                       ? give_classes(j, &null)
                       : tusk_score_give(
                             &j->sums, tusk_metric_of((enum tusk_metric_kind)j->which.sum), &null);
    return null || j->undefined ? NAN : found;
}

/* The kind of result that a metric needs. */
static enum tusk_answer answer_for(which_metric w, const tusk_payload_head *head) {
    bool several = tusk_labels_in(head) > 0;
    if (w.ranking >= 0)
        return TUSK_DECISION;
    if (w.sum == TUSK_LOG_LOSS || w.sum == TUSK_BRIER)
        return several ? TUSK_PREDICT_PROBAS : TUSK_PREDICT_PROBA;
    return TUSK_PREDICT;
}

static bool judge_rows(judged *j, const tusk_group *group) {
    tusk_shape shape = tusk_shape_of(group);
    j->scored.weighted = j->counted.weighted = group->extras & TUSK_WEIGHTS;
    int64_t left = group->n_rows; /* beyond these the links lead on to rows of others */
    for (const tusk_segment *s = group->head; s && left > 0; left -= s->n_rows, s = s->next)
        if (!judge_segment(j, s, shape))
            return false;
    return true;
}

/* --- documents --- */

/* The longest row of a group, in entries. */
static uint64_t longest_row(const tusk_group *group) {
    uint64_t longest = 0;
    int64_t left = group->n_rows;
    for (const tusk_segment *s = group->head; s && left > 0; left -= s->n_rows, s = s->next)
        for (uint32_t i = 0; i < s->n_rows; i++) {
            uint64_t n = tusk_row_starts(s)[i + 1] - tusk_row_starts(s)[i];
            longest = n > longest ? n : longest;
        }
    return longest;
}

/* Adds the log probability of half of the tokens of each document, and how many these are. */
static bool complete_documents(judged *j, const tusk_group *group, tusk_inference *by, void *room,
                               double *log_likelihood, double *tokens) {
    tusk_shape shape = tusk_shape_of(group);
    size_t size = tusk_value_size(shape.kind);
    int64_t left = group->n_rows;
    for (const tusk_segment *s = group->head; s && left > 0; left -= s->n_rows, s = s->next) {
        const double *weight = tusk_extra(s, shape, TUSK_WEIGHTS);
        for (uint32_t i = 0; i < s->n_rows; i++) {
            uint32_t at = tusk_row_starts(s)[i], n = tusk_row_starts(s)[i + 1] - at;
            tusk_sparse_row row = sparse_row(s, at, n, size);
            tusk_word_counts document;
            double found, several, times = weight ? weight[i] : 1;
            if (stops(j, i) ||
                !tusk_count_ids(by, &row, size == sizeof(double), room, &document, j->sentence))
                return false;
            tusk_complete_document(by, &document, &found, &several);
            *log_likelihood += times * found;
            *tokens += times * several;
        }
    }
    return true;
}

/* The perplexity of documents, as SQL's perplexity has it. Ids are those of the training. */
static bool judge_documents(judged *j, tusk_text payload, const tusk_group *group, double *out) {
    tusk_topics topics;
    const char *sqlstate;
    double log_likelihood = 0, tokens = 0;
    if (!tusk_topics_of(payload, &topics, j->sentence, &sqlstate))
        return false;
    void *own = malloc(tusk_inference_room(&topics)),
         *room = malloc(tusk_words_room(longest_row(group)));
    bool done = own && room;
    if (done) {
        tusk_inference by = tusk_inference_in(own, &topics);
        done = complete_documents(j, group, &by, room, &log_likelihood, &tokens);
        *out = tokens > 0 ? exp(-log_likelihood / tokens) : NAN;
    } else {
        snprintf(j->sentence, TUSK_SENTENCE, "out of memory");
    }
    free(own);
    free(room);
    return done;
}

/* --- models --- */

static bool judge_payload(const char *bytes, size_t size, const tusk_group *group, judged *j,
                          double *out) {
    tusk_payload_head head;
    tusk_stores none = {0};
    memcpy(&head, bytes, sizeof head);
    if (j->which.perplexity)
        return judge_documents(j, (tusk_text){bytes, size}, group, out);
    if (j->which.ranking >= 0 && tusk_labels_in(&head) > 2) {
        snprintf(j->sentence, TUSK_SENTENCE,
                 "a group has more than two classes, expected log_loss, brier, accuracy, "
                 "precision_score, recall_score or f1_score");
        return false;
    }
    j->answer = answer_for(j->which, &head);
    if (!tusk_read_model((tusk_text){bytes, size}, &none, j->answer, &j->scorer, j->sentence))
        return false;
    bool done = true;
    j->alone = tusk_has_classes(&j->scorer) && head.n_classes == 1;
    if (j->alone || !j->scorer.null) {
        done = judge_rows(j, group);
        *out = give(j);
    }
    tusk_scored_free(&j->scored);
    tusk_classes_free(&j->counted);
    tusk_forget_model(&j->scorer);
    return done;
}

static bool judge_model(const tusk_models *models, int64_t i, const tusk_group *group, judged *j,
                        double *out) {
    tusk_payload_parts parts;
    tusk_model_fields fields = tusk_fields_of(models, i);
    fields.class_names.n = 0; /* labels of rows are the numbers of their classes */
    if (!tusk_payload_of(&fields, &parts, j->sentence))
        return false;
    size_t size = tusk_payload_size(&parts);
    char *bytes = malloc(size);
    bool done = false;
    if (bytes) {
        tusk_payload_write(&parts, bytes);
        done = judge_payload(bytes, size, group, j, out);
    } else {
        snprintf(j->sentence, TUSK_SENTENCE, "out of memory");
    }
    free(bytes);
    tusk_payload_free(&parts);
    return done;
}

/* A call, whose models are evaluated by several threads. */
typedef struct judging {
    const tusk_models *models;
    const tusk_group *groups;
    const tusk_judging *how;
    which_metric which;
    double *out;
    tusk_refusal *why;
    atomic_int ended; /* nonzero after a failure or a stop: the return value, plus 2 */
} judging;

static int judge_one(void *context, int64_t i) {
    judging *call = context;
    char sentence[TUSK_SENTENCE] = "";
    judged j = {.which = call->which,
                .parameter = call->how->parameter,
                .sentence = sentence,
                .how = call->how};
    if (call->how->rows)
        j.rows = call->how->rows + 3 * call->how->begin[i];
    call->out[i] = NAN;
    if (judge_model(call->models, i, call->groups + i, &j, call->out + i))
        return 0;
    int none = 0;
    if (atomic_compare_exchange_strong(&call->ended, &none, j.stopped ? 1 : 2))
        memcpy(call->why->sentence, sentence, sizeof sentence);
    return 1;
}

EXPORTED int tusk_judge(const tusk_models *models, const tusk_group *groups,
                        const tusk_judging *how, double *out, tusk_refusal *why) {
    judging call = {.models = models,
                    .groups = groups,
                    .how = how,
                    .which = named(how->metric),
                    .out = out,
                    .why = why};
    *why = (tusk_refusal){.sqlstate = "22023"};
    if (!how->run(models->n, how->threads, judge_one, &call))
        return 1;
    return atomic_load(&call.ended) - 2;
}
