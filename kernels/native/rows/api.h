/* Statistics of rows, and copies of rows: shuffled, contiguous, renumbered, or for a device. */
#ifndef TUSK_ROWS_API_H
#define TUSK_ROWS_API_H

#include "../shared/api.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tk_label_stats {
    double low, high;       /* smallest and largest label */
    int64_t n_rows, n_high; /* all rows, and the rows with the largest label */
    int64_t third_row;      /* 1-based number of the first row with a third label, or with a number
                               that the loss is not defined for; 0 if there is none */
    double third;
    double mean, variance;
    double weight, weight_high; /* of all rows, and of those with the largest label of two */
    double exposure;            /* for numeric labels, the weighted mean of exp(offset), else 1 */
} tk_label_stats;
TK_API int tk_labels(const tk_pass *pass, tk_label_stats *out);
/* Weighted mean and standard deviation of dense features, shape (n_groups, d), from a sample of
 * about `sample` rows per group. The deviation of a constant feature is 0. */
TK_API int tk_feature_moments(const tk_pass *pass, int64_t sample, double *mean,
                              double *deviation);
/* Dense features whose values lie together in most rows, by a sample: those whose quartiles are
 * within `share` of their deviation (n_groups, d) from each other. centre: their median; spread:
 * the root mean square distance from it of the values that are this near; both 0 for other
 * features, and for those of which most values are equal. */
TK_API int tk_crowded_features(const tk_pass *pass, double share, const double *deviation,
                               double *centre, double *spread);
/* The same for sparse features, around 0: those of whose nonzero values at least three in four are
 * within `share` of the largest |value| (n_groups, d), by a sample. */
TK_API int tk_crowded_entries(const tk_pass *pass, double share, const double *largest,
                              double *spread);
/* For each sparse feature, the number of rows in which it occurs and its largest |value|, shape
 * (n_groups, d). */
TK_API int tk_feature_counts(const tk_pass *pass, double *count, double *largest);
/* For each sparse feature that is not 0 in more than half of the rows of its group, is not
 * repeated in a row, and whose |mean| there is more than `times` its standard deviation, the
 * mean, and that deviation; 0 for others. share: (n_groups, d), of rows that have a feature; NULL:
 * only features of all rows count. mean: (n_groups, d + 1), the last one 0, as is deviation. */
TK_API int tk_far_means(const tk_pass *pass, double times, const double *share, double *mean,
                        double *deviation);
/* Returns 0 unless, in every group, the largest |value| of the first segment is between 1/16 and
 * 16. Otherwise returns 1 if all nonzero values are within a factor of TK_NEAR_ONE of 1, and 2 if
 * some are not. The rows are sparse. */
#define TK_NEAR_ONE 256
TK_API int tk_values_near_one(const tk_pass *pass);

/* --- order --- */
/* Copies each group's rows in the order of a seeded hash of their content. This is a uniform
 * shuffle that does not depend on the order of the input. The first held_out[g] rows go to
 * held, the others to kept; both own their segments. TUSK_FOLDS, if rows have them, are hashes
 * of the original rows, and determine the order. */
TK_API int tk_shuffle(const tk_pass *pass, tusk_memory *memory, uint64_t seed,
                      const int64_t *held_out, tusk_group *kept, tusk_group *held);
/* Copies each group's rows in order; kept owns its segments. */
TK_API int tk_keep(const tk_pass *pass, tusk_memory *memory, tusk_group *kept);
/* Copies like tk_keep, minus an origin of shape (n_groups, d + 1) of the features and the
 * label: sparse rows get the features that they lack and whose origin is not 0. */
TK_API int tk_moved(const tk_pass *pass, tusk_memory *memory, const double *origin,
                    tusk_group *moved);
TK_API void tk_free_groups(tusk_group *groups, int64_t n);
/* For each group of at least `least` rows, the index from 1 on of the first feature that
 * determines the label: it is the label in all rows, or a linear function of it, or has a
 * distinct value for each of few values of the label, which is hardly by chance; or of the
 * features that together distinguish all such values but one. 0: none. out: (n_groups,). */
TK_API int tk_leaks(const tk_pass *pass, int64_t least, int32_t *out);
/* Copies the chosen rows of each group in order; chosen: (rows,), groups concatenated, how often
 * each row is copied. If any row is copied twice, all copies have weights, of 1 where the rows
 * have none. The copies own their segments. */
TK_API int tk_choose(const tk_pass *pass, tusk_memory *memory, const uint8_t *chosen,
                     tusk_group *out);
/* Copies the rows of each group in order, with weights: their own, or 1, times the factor of
 * their label. label: the distinct labels of each group, rising, from start[g] to start[g + 1];
 * factor: of each. The copies own their segments. */
TK_API int tk_weigh(const tk_pass *pass, tusk_memory *memory, const double *label,
                    const double *factor, const int64_t *start, tusk_group *out);
/* Frees the memory of the values of dense groups of at least `cells` cells, which are not read
 * again; their labels stay. Smaller groups share pages. */
TK_API void tk_spend(const tk_pass *pass, int64_t cells);

/* --- folds --- */
/* Criterion for the fold of a row: chance, by a hash of the row, which modified rows have as
 * TUSK_FOLDS; the number that rows have as TUSK_FOLDS, equal numbers being in one fold; or this
 * number's order, the first fold having the lowest. */
enum tk_deal_by { TK_BY_CHANCE, TK_BY_VALUE, TK_BY_ORDER };
typedef struct tk_dealing {
    uint64_t seed;
    int32_t folds;    /* of each group's rows, as equal in size as possible */
    int32_t slices;   /* of each fold: 1/2^(slices - 1) of its rows, as many, twice as many... */
    int32_t by_label; /* whether rows of each label are dealt evenly to folds of equal size */
    int32_t by;       /* enum tk_deal_by */
    int32_t keeps_marks; /* whether the copies have TUSK_FOLDS */
    int32_t has_gap;     /* by order: whether rows that are near a later fold are in their own
                            stretches, so that these can be left out */
    double gap;          /* rows within this distance before the first row of a fold are near it */
    const int64_t *held; /* by group, for two folds the approximate number of rows of the second
                          * one; NULL: folds are equal in size */
    int32_t n_forms;     /* 0, or the number of forms of these groups, which are one of them */
    const tusk_group *const *forms; /* each with the same rows in the same order, dealt alike */
} tk_dealing;
/* A fold is one stretch of rows. With a gap it is `folds` of them: stretch e of fold k has
 * those of its rows that are near the e folds after it, and no others. */
/* Copies each group's rows to cells, shape (n_groups, stretches * slices); tk_unlink frees
 * them. The cell of a row does not depend on the order of the input. */
TK_API int tk_deal(const tk_pass *pass, const tk_dealing *how, tusk_memory *memory,
                   tusk_group *cells);
/* The stretch of each row, groups concatenated, in order. */
TK_API int tk_stretches(const tk_pass *pass, const tk_dealing *how, int32_t *out);
/* --- folds of a group whose rows lie in parts --- */
/* For a part, the hashes by which tk_shuffle orders rows, equal for equal rows, in the order of
 * the rows, each followed by the bits of the label; if columns is 4, and not 2, also those of
 * the weight and the offset. out: (n_rows, columns). */
TK_API int tk_row_hashes(const tk_pass *pass, uint64_t seed, int32_t columns, uint64_t *out);
typedef struct tk_parted {
    uint64_t seed;
    int64_t n;
    const uint64_t *alike; /* (n, columns) rising, as from tk_row_hashes: rows of this part */
    const int64_t *before; /* (n,): number of rows with the same hash before the first of them */
    int32_t columns;
    int32_t folds;
    int32_t n_labels;      /* 1: rows are dealt regardless of their labels */
    const double *label;   /* (n_labels,) rising */
    const uint64_t *until; /* (n_labels, folds - 1) the last keys of all folds but the last */
} tk_parted;
/* The keys by which the rows of a part are dealt, rising, and their labels, (n_rows,) each. */
TK_API int tk_part_rows(const tk_pass *pass, const tk_parted *how, uint64_t *key, double *label);
/* Copies the rows of a part to cells, (folds,), which own their segments. */
TK_API int tk_deal_part(const tk_pass *pass, const tk_parted *how, tusk_memory *memory,
                        tusk_group *cells);
/* Links the segments of the chosen cells of each group; chosen has the shape (n_cells,). The
 * groups are valid until cells are linked again, and own nothing. */
TK_API void tk_link(const tusk_group *cells, int64_t n_groups, int64_t n_cells,
                    const uint8_t *chosen, tusk_group *out);
/* Links the segments of the chosen cells of each group to a ring, in which several sets of
 * consecutive cells are groups at the same time. These end by their number of rows. */
TK_API void tk_ring(const tusk_group *cells, int64_t n_groups, int64_t n_cells,
                    const uint8_t *chosen);
/* The numbers TUSK_FOLDS of a group's rows. */
TK_API void tk_marks(const tusk_group *group, double *out);
TK_API void tk_unlink(tusk_group *cells, int64_t n);

/* --- many small groups --- */
/* Whether the rows of most groups, which are dense, are in several segments. */
TK_API int tk_scattered(const tk_pass *pass);
/* Copies each dense group into one segment at memory + place[g]. All groups have the same kind and
 * width. A segment is aligned to 8 bytes and holds its header, labels and values. The copies own
 * no memory. */
TK_API int tk_gather(const tk_pass *pass, void *memory, const int64_t *place, tusk_group *out);

/* --- sparse rows that use few of many ids --- */
/* Finds the ids that occur in a group of sparse rows. *ids has shape (*n,), is ascending, and is
 * owned by *out. */
TK_API int tk_ids_that_occur(const tusk_group *group, tusk_memory *memory, int64_t mark,
                             tk_charged **out, int32_t **ids, int64_t *n);
/* Copies the group with each id replaced by its index in ids; tk_free_groups frees the copy.
 * hashes: whether its rows have the hashes of the original ones as TUSK_FOLDS. */
TK_API int tk_renumber(const tusk_group *group, tusk_memory *memory, int64_t mark,
                       const int32_t *ids, int64_t n, int32_t hashes, tusk_group *out);

/* --- sparse rows with wide ids --- */
/* Finds the ids that occur in a group, or are among *n others in `more`. *ids then has shape
 * (*n,), is ascending, and is owned by *out. */
TK_API int tk_vocabulary(const tusk_group *group, const int64_t *more, tusk_memory *memory,
                         int64_t mark, tk_charged **out, int64_t **ids, int64_t *n);
/* Copies the group with each id replaced by its index among n < 2^31 ids, rows with wide ids
 * last; tk_free_groups frees the copy. hashes: as for tk_renumber. */
TK_API int tk_number(const tusk_group *group, tusk_memory *memory, int64_t mark,
                     const int64_t *ids, int64_t n, int32_t hashes, tusk_group *out);

/* --- documents of words --- */
/* The words of a group, sorted by their bytes: word i is text[offsets[i] .. offsets[i + 1]]. */
typedef struct tk_words {
    tk_charged *held; /* owner of the memory; tk_charged_free frees it */
    int64_t n;
    const int64_t *offsets; /* (n + 1,) */
    const char *text;
} tk_words;
/* Whether the rows of a group are documents whose ids are codes of words. */
TK_API int tk_has_words(const tusk_group *group);
/* Replaces the ids of such rows by indices of the group's sorted words. The rows are modified
 * in place, because they may be most of memory; rows that were modified before are unchanged. */
TK_API int tk_number_words(const tusk_group *group, tusk_memory *memory, int64_t mark,
                           tk_words *out);

/* --- rows with names, and labels that are text --- */
enum tk_missing {
    TK_MISSING_SKIP,
    TK_MISSING_IMPUTE,
    TK_MISSING_LEVEL,
    TK_MISSING_ERROR,
    TK_MISSING_KEEP, /* numbers stay NaN, a category has a level for NULL */
};

/* New levels in predictions, and levels beside closed ones in training: they count as *other*, or
 * are refused; a prediction is NULL or an error then. */
enum tk_unseen { TK_UNSEEN_OTHER, TK_UNSEEN_ERROR, TK_UNSEEN_NULL };

/* Which levels of a category have a feature. The first one is the reference otherwise. */
enum tk_levels_with_feature { TK_BUT_REFERENCE, TK_ALL_LEVELS, TK_FIRST_HAS_ALL };

/* Representation of dates and times: days since 1970, or their year and other parts, which are
 * categories or cyclic. */
enum tk_dates { TK_DATES_DAYS, TK_DATES_PARTS, TK_DATES_CYCLES };

/* Levels of a category in a fixed order, from 0 on, before the rows are read. */
typedef struct tk_known_levels {
    const char *column; /* the name of the feature, terminated by 0 */
    const char *text;   /* the levels, concatenated */
    const int64_t *ends;
    int64_t n;
    int32_t missing; /* whether NULLs have a number too, even if none occurs */
    int32_t closed;  /* whether other levels count as *other*, or are refused by `unseen` */
} tk_known_levels;

/* Which columns are one feature, the number of a level: none; categories; or all, numbers too,
 * which are names then. */
enum tk_level_numbers { TK_NO_NUMBERS, TK_NUMBERS_OF_CATEGORIES, TK_NUMBERS_OF_NAMES };

/* Each name in a list is terminated by 0. */
/* Whether the values of a column are in the order of time, and the unit of a gap before later
 * ones: that of numbers, or days. */
enum tk_time { TK_NO_TIME, TK_TIME, TK_TIME_GAP_IN_NUMBERS, TK_TIME_GAP_IN_DAYS };
typedef struct tk_preparing {
    int32_t missing; /* enum tk_missing */
    int32_t levels;  /* enum tk_levels_with_feature */
    int32_t unseen;  /* enum tk_unseen */
    int32_t threads;
    int64_t max_categories; /* levels of a category with a feature of their own; 0: no limit */
    int64_t min_count;      /* least number of rows of such a level */
    int64_t cancel_mark;
    const char *classes; /* names of labels, each terminated by 0; NULL: those that occur */
    int64_t n_classes;
    int32_t dates;          /* enum tk_dates */
    int32_t word_bits;      /* words are hashed to 2^word_bits buckets */
    const char *categories; /* columns of numbers that are categories */
    int64_t n_categories;
    const char *words; /* columns of text whose words are features */
    int64_t n_words;
    const char *interactions; /* names of columns; an empty name ends each interaction */
    int64_t n_interactions;   /* number of names, including the empty ones */
    const char *absorbed; /* categories whose features come behind those of other columns; numbers
                           * among them are categories */
    int64_t n_absorbed;
    const char *cluster;   /* a column whose values are the clusters of the rows; NULL: none */
    int32_t dense;         /* whether rows stay dense if few of their features are nonzero */
    int32_t level_numbers; /* enum tk_level_numbers */
    const char *fold;      /* a column by whose values rows are dealt to folds; NULL: none */
    int32_t fold_in_time;  /* enum tk_time: whether these values are in the order of time */
    int32_t hashes; /* whether rows have hashes of the original ones as TUSK_FOLDS, unless `fold`
                       is set */
    const struct tk_census *census; /* of the rows of all parts of a group; NULL: no parts */
    int32_t n_known;
    const tk_known_levels *known; /* by category; open ones are numbers of levels */
    const char *reference;        /* names of categories, each followed by its reference level or
                                   * "most frequent"; an empty name stands for all others */
    int64_t n_reference;          /* names, with the levels */
    int32_t ordered; /* whether labels that are text need an order: that of their ENUM, or of the
                        classes given */
} tk_preparing;

#define TK_PREPARE_ERROR 1024
/* Expands groups whose `parts` are set. Labels that are text become numbers from 0 on, by sorted
 * text, or in the order of the classes given or of all values of their ENUM, if it is needed.
 * tk_free_groups frees the copies. TK_REFUSED: error has a sentence. */
typedef struct tk_prepared tk_prepared;
TK_API int tk_prepare(const tusk_group *groups, int64_t n, const tk_preparing *how,
                      tusk_memory *memory, tusk_group *out, tk_prepared **texts, char *error);
/* A text of a group and its length, with names terminated by 0 each. which: 0 the names of the
 * features and 2 those of the classes; 1 the preparation as JSON; 3 a byte for each feature, 1
 * if values are numbers of levels, or nothing if there are none; 4 the kind of the column of
 * folds, "number", "date", "timestamp" or "text", and for text the values by index; 5 for each
 * category whose levels hardly repeat its name, its number of levels, and 1 if these are texts
 * of numbers or 0. */
TK_API int64_t tk_prepared_text(const tk_prepared *texts, int32_t which, int64_t group,
                                const char **text);
/* The categories of a group with a feature per level, *n of them: for each the first feature
 * and the number of features, without the indicator of missing values. */
TK_API const int32_t *tk_prepared_categories(const tk_prepared *texts, int64_t group, int64_t *n);
TK_API void tk_prepared_free(tk_prepared *texts);

/* --- rows without the effects of categories --- */
typedef struct tk_absorbing {
    const int32_t *effects; /* (n_effects, 2): the first feature of each category, and the number
                             * of its features, one for each level but the first */
    int32_t n_effects;
    int32_t cluster; /* the category whose levels are the clusters of the rows; -1: none is */
    int32_t threads;
    int64_t cancel_mark;
} tk_absorbing;
/* A column of the rows: its mean, its sum of squares about that, and that of its residuals. */
typedef struct tk_absorbed_column {
    double mean, squares, rest;
    int32_t converged;
} tk_absorbed_column;
/* Copies a group with its other features as dense rows. These, and the labels less offsets, are
 * the residuals of a regression on the levels of the categories; a feature that the levels
 * determine is 0. columns: (d + 1,), the label last; effects: (d + 1, levels) of each column by
 * level; weights: (levels,), of the rows of each; ranks: of the levels, and of those of categories
 * that are not nested in the clusters. */
TK_API int tk_absorb(const tusk_group *group, const tk_absorbing *how, tusk_memory *memory,
                     tusk_group *out, tk_absorbed_column *columns, double *effects,
                     double *weights, int64_t *ranks);
/* --- histograms --- */
/* Each name in a list is terminated by 0. */
typedef struct tk_histogram_of {
    int32_t threads;
    int32_t skips; /* whether the training leaves out rows with a NULL, as the histogram says */
    int64_t cancel_mark;
    const char *categories; /* columns of numbers that are categories */
    int64_t n_categories;
    const char *words; /* columns of text of which only NULLs are counted */
    int64_t n_words;
    const char *apart; /* columns that are no features */
    int64_t n_apart;
    const char *features; /* the names of the features of lists; without any they are x1, x2... */
    int64_t n_features;
} tk_histogram_of;
/* Histograms of the dense rows or rows with names of groups, before any preparation. */
typedef struct tk_histograms tk_histograms;
TK_API int tk_histogram(const tusk_group *groups, int64_t n, const tk_histogram_of *how,
                        tk_histograms **out);
/* The histogram of a group as JSON (docs/sql/inspection.md), and its length. */
TK_API int64_t tk_histogram_text(const tk_histograms *found, int64_t group, const char **text);
TK_API void tk_histogram_free(tk_histograms *found);

/* --- rows with names in several parts --- */
/* Counts of the columns of rows: each part counts its own, and the sums of all determine the
 * features everywhere. The first census of how is NULL; with interactions, a second round
 * counts combinations, with the sums of the first round as census. */
typedef struct tk_census tk_census;
TK_API tk_census *tk_census_new(void); /* NULL: no memory */
TK_API void tk_census_free(tk_census *census);
TK_API int tk_census_count(tk_census *census, const tusk_group *group, const tk_preparing *how,
                           char *error);
/* Adds counts of another part; TK_REFUSED: their columns differ. */
TK_API int tk_census_add(tk_census *census, const char *bytes, int64_t n);
/* Writes the counts if there is room, and returns their size in bytes; -1: no memory. */
TK_API int64_t tk_census_bytes(const tk_census *census, char *bytes, int64_t room);

/* --- rows for a device --- */
/* Copies the dense rows of the groups into values (n_rows, d) and labels (n_rows,). start, of
 * shape (n_groups,) and ascending, has the position of each group's first row. Only positions
 * first .. first + n_rows - 1 are written; positions without a row are set to 0. */
TK_API int tk_copy_rows(const tk_pass *pass, const int64_t *start, int64_t first, int64_t n_rows,
                        void *values, double *labels);

#ifdef __cplusplus
}
#endif
#endif
