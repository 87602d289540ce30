/* The tasks, said once: the C of both databases reads this table; scripts/build/tasks.py writes
 * udas/tasks.py and dbt's macro of it. A new loss or learner is one row here.
 *
 * TASK(name, linear, SCORER, RESPONSE, LABELS, TEST, ROWS, metric, formula):
 *   SCORER    how its models are scored (models/kinds.c): LINEAR, LOGISTIC, SVM, FACTORIZATION,
 *             BOOSTED, NET, TOPICS, MACHINE, CENTRES or ORDINAL
 *   RESPONSE  what predicts a number from its margin m: IDENTITY m, EXP exp(m); SHARES: the
 *             margins of classes are their shares
 *   LABELS    NUMBERS; TWO classes; CLASSES, two or more; LEVELS, the same in an order; EITHER
 *             numbers or classes, as the labels or option `objective` say, EITHER_TWO at most two
 *             of them; RATINGS of pairs [user, item]; NONE, and DOCUMENTS, which have none either
 *   TEST      of a coefficient over its standard error: STUDENT (t), NORMAL (z), UNTESTED
 *   ROWS      MERGED: equal rows may be one row whose weight is their number; APART
 *   metric    by which its models are compared; "": log_loss of classes, rmse of numbers
 *   formula   the loss of a row, of its margin m and its label y
 */
#ifndef TUSK_TASKS_H
#define TUSK_TASKS_H

/* clang-format off */
#define TUSK_TASK_TABLE(TASK) \
    TASK(linear, linear, LINEAR, IDENTITY, NUMBERS, STUDENT, MERGED, "", "1/2 (m - y)^2") \
    TASK(logistic, linear, LOGISTIC, IDENTITY, CLASSES, NORMAL, MERGED, "", "log(1 + exp(-y m))") \
    TASK(svm, linear, SVM, IDENTITY, TWO, UNTESTED, MERGED, "accuracy", "max(0, 1 - y m)") \
    TASK(squared_hinge, linear, SVM, IDENTITY, TWO, UNTESTED, MERGED, "accuracy", "max(0, 1 - y m)^2") \
    TASK(poisson, linear, LINEAR, EXP, NUMBERS, NORMAL, MERGED, "poisson_deviance", "exp(m) - y m") \
    TASK(negative_binomial, linear, LINEAR, EXP, NUMBERS, NORMAL, MERGED, "poisson_deviance", \
         "(y + 1/a) log(1 + a exp(m)) - y m") \
    TASK(gamma, linear, LINEAR, EXP, NUMBERS, STUDENT, MERGED, "gamma_deviance", "y exp(-m) + m") \
    TASK(tweedie, linear, LINEAR, EXP, NUMBERS, STUDENT, MERGED, "tweedie_deviance", \
         "exp((2 - p) m) / (2 - p) + y exp((1 - p) m) / (p - 1)") \
    TASK(inverse_gaussian, linear, LINEAR, EXP, NUMBERS, STUDENT, MERGED, "", "y exp(-2 m) / 2 - exp(-m)") \
    TASK(huber, linear, LINEAR, IDENTITY, NUMBERS, NORMAL, MERGED, "mae", \
         "r^2/2 of r = m - y up to |r| = delta, then delta (|r| - delta/2)") \
    TASK(quantile, linear, LINEAR, IDENTITY, NUMBERS, UNTESTED, MERGED, "pinball", \
         "max(q (y - m), (q - 1) (y - m))") \
    TASK(ordinal, ordinal, ORDINAL, IDENTITY, LEVELS, NORMAL, APART, "", \
         "-log(G(t_y - m) - G(t_(y - 1) - m)), t the thresholds of levels") \
    TASK(matrix_factorization, factorization, FACTORIZATION, IDENTITY, RATINGS, UNTESTED, APART, "", "1/2 (m - y)^2") \
    TASK(gbdt, trees, BOOSTED, IDENTITY, EITHER, UNTESTED, APART, "", \
         "by `objective` `1/2 (m - y)^2`, or that of the task of its name") \
    TASK(random_forest, trees, BOOSTED, SHARES, EITHER, UNTESTED, APART, "", \
         "by option `objective` 1/2 (m - y)^2 or, for classes, Gini's impurity") \
    TASK(mlp, nets, NET, IDENTITY, EITHER, UNTESTED, APART, "", \
         "`1/2 (m - y)^2`, or `log(1 + exp(-y m))` by option `objective`") \
    TASK(lasso, paths, LINEAR, IDENTITY, NUMBERS, UNTESTED, APART, "", "1/2 (m - y)^2") \
    TASK(elastic_net, paths, LINEAR, IDENTITY, NUMBERS, UNTESTED, APART, "", "1/2 (m - y)^2") \
    TASK(sparse_logistic, paths, LOGISTIC, IDENTITY, TWO, UNTESTED, APART, "", "log(1 + exp(-y m))") \
    TASK(lda, topics, TOPICS, IDENTITY, DOCUMENTS, UNTESTED, APART, "perplexity", \
         "-log p(words, topics) of a token") \
    TASK(kmeans, clusters, CENTRES, IDENTITY, NONE, UNTESTED, APART, "silhouette", "min_j |x - c_j|^2") \
    TASK(fm, fm, MACHINE, IDENTITY, EITHER_TWO, UNTESTED, APART, "", \
         "`1/2 (m - y)^2`, or `log(1 + exp(-y m))` by option `objective`")
/* clang-format on */

#endif
