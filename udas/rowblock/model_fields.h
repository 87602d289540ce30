/* The schema of a model value, said once: DuckDB's STRUCT, the columns that the trainer fills and
 * what C writes follow from it. scripts/build/model_fields.py writes the rest from this table:
 * udas/model_fields.py, PostgreSQL's type, the registry's column and the table in
 * docs/sql/model.md.
 *
 * FIELD(NAME, name, KIND, meaning). Kinds, with DuckDB's and PostgreSQL's types:
 *   TEXT     VARCHAR, text             NUMBER   DOUBLE, float8; NaN is NULL
 *   TEXTS    VARCHAR[], text[]         NUMBERS  DOUBLE[], float8[]; empty is NULL, NaN a NULL item
 *   COUNT    BIGINT, bigint            TRUTH    BOOLEAN, boolean
 *   PAYLOAD  BLOB, bytea: made by C of the other fields, so the trainer has no column for it
 */
#ifndef TUSK_MODEL_FIELDS_H
#define TUSK_MODEL_FIELDS_H

/* clang-format off */
#define TUSK_MODEL_FIELDS(FIELD) \
    FIELD(TASK, task, TEXT, "") \
    FIELD(FEATURES, features, TEXTS, \
          "the names of the features of rows by name or of option `feature_names`; otherwise NULL") \
    FIELD(PREPARATION, preparation, TEXT, \
          "for features by name, as JSON: the columns, the levels of categories, and what fills " \
          "gaps; otherwise NULL") \
    FIELD(COEF, coef, NUMBERS, \
          "in the units of the features. Sparse: `coef[i + 1]` is the weight of id i. " \
          "`matrix_factorization`: the users' vectors and then the items', each with its bias " \
          "first. NULL for trees, which are in `payload` (`tree_dump`). `mlp`: the layers " \
          "([Neural nets](../algorithms/nets.md)). `fm`: of each feature its weight and its " \
          "vector ([Factorization machines](../algorithms/machines.md)). `kmeans`: the centres " \
          "([Clusters](../algorithms/clusters.md)). More than two classes: the weights of one class " \
          "after another, the intercept's first. `ordinal`: the thresholds, then the coefficients. " \
          "NULL with the option `store`") \
    FIELD(INTERCEPT, intercept, NUMBER, \
          "`matrix_factorization`: the mean rating, 0 without biases. NULL with more than two " \
          "classes") \
    FIELD(STD_ERR, std_err, NUMBERS, \
          "standard errors, the intercept's first, of more than two classes in the order of `coef`; " \
          "NULL where they have no meaning") \
    FIELD(CLASSES, classes, NUMBERS, \
          "the labels, in rising order, of text in the order of `class_names`: the numbers that all of them " \
          "are, or their places from 0 on; one label if there was only one; NULL for `linear`;" \
          " `matrix_factorization`: the numbers of users, of items, and of elements per vector") \
    FIELD(CLASS_NAMES, class_names, TEXTS, \
          "the classes by their own names, in the order of `classes`; numbers as text; NULL where " \
          "there are no classes") \
    FIELD(N_ROWS, n_rows, COUNT, "rows used, including those that `validation` holds out") \
    FIELD(N_SKIPPED, n_skipped, COUNT, "rows with a NULL, and those that option `invalid` left out") \
    FIELD(NOTE, note, TEXT, \
          "in how many of the skipped rows which column, label, weight or offset was NULL; " \
          "otherwise NULL") \
    FIELD(N_FEATURES, n_features, COUNT, \
          "sparse: 1 + the largest id; 2 for `matrix_factorization`") \
    FIELD(LOSS, loss, NUMBER, "the objective at the result, penalties included") \
    FIELD(HISTORY, history, NUMBERS, \
          "the objective by iteration, thinned to at most 200 points") \
    FIELD(ITERATIONS, iterations, COUNT, "the stochastic algorithms count epochs") \
    FIELD(CONVERGED, converged, TRUTH, "whether the criterion fell to `epsilon`") \
    FIELD(STATUS, status, TEXT, \
          "see [Statuses](../reference/statuses.md); with `store` a training that diverges is an " \
          "error, and nothing is stored") \
    FIELD(PLAN, plan, TEXT, "what ran") \
    FIELD(SECONDS, seconds, NUMBER, "the group's share of its batch's time, by rows") \
    FIELD(OPTIONS, options, TEXT, \
          "the options in force as JSON, starting with the version of the format") \
    FIELD(STORE, store, TEXT, \
          "with the option `store`, the version that has the coefficients, such as " \
          "`ads@3:1f2e3d4c5b6a7988`; otherwise NULL") \
    FIELD(TRIALS, trials, TEXT, \
          "as JSON, of a search what was tried and how well it did (`model_trials`), of a path of " \
          "penalties what each one gave (`model_path`); otherwise NULL") \
    FIELD(SPREAD, spread, NUMBERS, \
          "with the option `intervals`, what `predict_interval` reads: the Cholesky factor of the " \
          "covariance of the coefficients, the rows of its lower triangle one after another, the " \
          "intercept's first (`model_covariance`); or levels in rising order, and then for each of " \
          "them the distance from the prediction that holds this share of the labels; otherwise NULL") \
    FIELD(HISTOGRAM, histogram, TEXT, \
          "with the option `histogram`, the distribution of each feature as JSON, which `drift` " \
          "reads; otherwise NULL") \
    FIELD(PAYLOAD, payload, PAYLOAD, \
          "what predictions read: the weights in a compact format with a version and a checksum")
/* clang-format on */

#define TUSK_ENUM(NAME, name, KIND, meaning) M_##NAME,
enum model_field { TUSK_MODEL_FIELDS(TUSK_ENUM) MODEL_FIELDS };
#undef TUSK_ENUM

enum model_kind { K_TEXT, K_TEXTS, K_NUMBER, K_NUMBERS, K_COUNT, K_TRUTH, K_PAYLOAD };

static const struct model_field_of {
    const char *name;
    enum model_kind kind;
} MODEL_FIELD[MODEL_FIELDS] = {
#define TUSK_FIELD(NAME, name, KIND, meaning) {#name, K_##KIND},
    TUSK_MODEL_FIELDS(TUSK_FIELD)
#undef TUSK_FIELD
};

#endif
