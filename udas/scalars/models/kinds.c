#include "kinds.h"

#include <stdio.h>
#include <string.h>

#include "../../rowblock/tasks.h"
#include "../clusters/clusters.h"
#include "../topics/topics.h"
#include "margins.h"
#include "payload.h"

/* --- tasks by name --- */

static const tusk_task_row TASKS[] = {
#define TUSK_ROW(name, learner, KIND, RESPONSE, LABELS, TEST, ROWS, metric, formula) \
    {#name, TUSK_##KIND, TUSK_##RESPONSE, TUSK_##TEST, TUSK_OF_##LABELS, TUSK_ROWS_##ROWS},
    TUSK_TASK_TABLE(TUSK_ROW)
#undef TUSK_ROW
};
#define N_TASKS (sizeof TASKS / sizeof *TASKS)

const tusk_task_row *tusk_task_named(tusk_text name) {
    for (size_t t = 0; name.data && t < N_TASKS; t++)
        if (strlen(TASKS[t].name) == name.length &&
            memcmp(TASKS[t].name, name.data, name.length) == 0)
            return TASKS + t;
    return NULL;
}

void tusk_list_tasks(char *sentence, int length) {
    for (size_t t = 0; t < N_TASKS; t++)
        length +=
            snprintf(sentence + length, TUSK_SENTENCE - (size_t)length, "'%s'%s", TASKS[t].name,
                     t + 2 < N_TASKS    ? ", "
                     : t + 2 == N_TASKS ? " or "
                                        : "");
}

/* --- checks of weights --- */

static bool check_factors(const double classes[3], const tusk_weight *coef, uint64_t n,
                          uint64_t outputs, char *sentence) {
    (void)coef;
    (void)outputs;
    return tusk_check_factors(classes, n, sentence);
}

static bool check_trees(const double classes[3], const tusk_weight *coef, uint64_t n,
                        uint64_t outputs, char *sentence) {
    (void)classes;
    return tusk_check_trees(coef, n, outputs, sentence);
}

static bool check_net(const double classes[3], const tusk_weight *coef, uint64_t n,
                      uint64_t outputs, char *sentence) {
    (void)classes;
    return tusk_check_net(coef, n, outputs, sentence);
}

static bool check_machine(const double classes[3], const tusk_weight *coef, uint64_t n,
                          uint64_t outputs, char *sentence) {
    (void)classes;
    (void)outputs;
    return tusk_check_machine(coef, n, sentence);
}

static bool check_centres(const double classes[3], const tusk_weight *coef, uint64_t n,
                          uint64_t outputs, char *sentence) {
    tusk_centres centres;
    (void)classes;
    (void)outputs;
    if (tusk_centres_of(coef, n, &centres))
        return true;
    snprintf(sentence, TUSK_SENTENCE, "the coefficients of the model are not its centres");
    return false;
}

static bool check_levels(const double classes[3], const tusk_weight *coef, uint64_t n,
                         uint64_t outputs, char *sentence) {
    (void)classes;
    return tusk_check_levels(coef, n, outputs, sentence);
}

static bool check_topics(const double classes[3], const tusk_weight *coef, uint64_t n,
                         uint64_t outputs, char *sentence) {
    tusk_topics topics;
    (void)classes;
    (void)outputs;
    if (tusk_topics_open((const char *)coef, n * sizeof(double), &topics))
        return true;
    snprintf(sentence, TUSK_SENTENCE, "the coefficients of the model are not its topics");
    return false;
}

/* --- kinds --- */

#define SMALLER_IDS "smaller ids of features, or option 'store', which keeps those that occur"
#define OF_TERMS .has_terms = true, .explains = true, .most_classes = 2, .smaller = SMALLER_IDS

const tusk_model_kind TUSK_KINDS[TUSK_TASKS] = {
    [TUSK_LINEAR] = {OF_TERMS, .adds_offsets = true},
    [TUSK_LOGISTIC] = {OF_TERMS, .adds_offsets = true, .classifies = true, .probabilities = true},
    [TUSK_SVM] = {OF_TERMS, .classifies = true},
    [TUSK_MULTINOMIAL] = {OF_TERMS, .probabilities = true},
    [TUSK_FACTORIZATION] =
        {
            .has_terms = true,
            .most_classes = 3,
            .smaller = "a smaller option 'rank', or option 'store'",
            .check = check_factors,
            .reads_store = true,
            .margins = tusk_factor_margins,
            .sparse_margin = tusk_factor_sparse_margin,
        },
    [TUSK_BOOSTED] =
        {
            .either = true,
            .probabilities = true,
            .shares_weights = true,
            .explains = true,
            .adds_offsets = true,
            .lost = TUSK_NO_TREES,
            .keeps_gaps = true,
            .most_classes = 2,
            .smaller = "fewer trees or leaves, as options 'trees', 'num_leaves', 'max_depth' and "
                       "'min_child_rows' set",
            .check = check_trees,
            .margins = tusk_tree_margins,
            .sparse_margin = tusk_tree_sparse_margin,
            .class_margins = tusk_tree_class_margins,
            .sparse_class_margins = tusk_tree_sparse_margin,
        },
    [TUSK_NET] =
        {
            .either = true,
            .probabilities = true,
            .shares_weights = true,
            .explains = true,
            .most_classes = 2,
            .smaller = "smaller layers, as option 'layers' sets, or fewer features",
            .check = check_net,
            .picks_class = true,
            .margins = tusk_net_margins,
            .sparse_margin = tusk_net_sparse_margin,
            .shares = tusk_net_shares,
            .sparse_shares = tusk_net_sparse_shares,
        },
    [TUSK_TOPICS] =
        {
            .has_terms = true,
            .refuses = (1u << TUSK_ANSWERS) - 1,
            .instead = "which predicts topics; use predict_topics(model, tokens)",
            .lost = TUSK_NO_TOPICS,
            .format = TUSK_PAYLOAD_TOPICS,
            .most_classes = 2,
            .smaller = "fewer words, or fewer topics, as option 'topics' sets",
            .check = check_topics,
        },
    [TUSK_MACHINE] =
        {
            .either = true,
            .probabilities = true,
            .explains = true,
            .format = TUSK_PAYLOAD_MACHINE,
            .most_classes = 2,
            .smaller = "smaller ids of features, or a smaller option 'rank'",
            .check = check_machine,
            .margins = tusk_machine_margins,
            .sparse_margin = tusk_machine_sparse_margin,
        },
    [TUSK_CENTRES] =
        {
            .has_centres = true,
            .refuses = ~(1u << TUSK_PREDICT | 1u << TUSK_DECISION),
            .instead = "which has no classes; predict() is the number of the nearest centre and "
                       "decision() the squared distance to it",
            .format = TUSK_PAYLOAD_CENTRES,
            .most_classes = 2,
            .smaller = "smaller ids of features, or fewer centres, as option 'clusters' sets",
            .check = check_centres,
            .margins = tusk_nearest_centres,
            .sparse_margin = tusk_sparse_nearest_centre,
        },
    [TUSK_ORDINAL] =
        {
            .has_terms = true,
            .probabilities = true,
            .shares_weights = true,
            .explains = true,
            .adds_offsets = true,
            .refuses = 1u << TUSK_PREDICT_INTERVAL | 1u << TUSK_MARGINAL_EFFECTS,
            .instead = "which has neither intervals nor marginal effects; partial_dependence() "
                       "shows what changes its probabilities",
            .format = TUSK_PAYLOAD_ORDINAL,
            .most_classes = 2,
            .smaller = "smaller ids of features",
            .check = check_levels,
            .picks_class = true,
        },
};
