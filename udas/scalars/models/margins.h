/* The kinds of margins that score.c chooses among. */
#ifndef TUSK_MARGINS_H
#define TUSK_MARGINS_H

#include "score.h"

/* out = x w + b for x of shape (n, d), float or double. */
void tusk_dot_rows(const void *x, bool f64, uint64_t d, uint64_t n, const tusk_weight *w, double b,
                   double *out);

/* Rejects a row with a negative id. */
bool tusk_check_ids(const tusk_sparse_row *row, char *sentence);

/* A row needs as many indices as values. */
bool tusk_check_pairs(const tusk_sparse_row *row, char *sentence);

/* For a model in a store (stored.c); like tusk_margins and tusk_sparse_margin. */
bool tusk_stored_margins(tusk_scorer *s, const void *x, bool f64, uint64_t d, uint64_t n,
                         double *out, char *sentence);
bool tusk_stored_sparse_margin(tusk_scorer *s, const tusk_sparse_row *row, bool f64, double *out,
                               char *sentence);
/* The margins of all classes of a row, (n_classes,), for a model of more than two classes in a
   store. */
bool tusk_stored_class_margins(tusk_scorer *s, const tusk_sparse_row *sparse, const void *x,
                               bool f64, uint64_t d, double *out, char *sentence);
/* Fails with the error of the store's reader. */
bool tusk_refuse_stored(tusk_scorer *s, const sealed_error *e, char *sentence);

/* Tests a level in the set of levels at offset `from_end` before the end of the n coefficients
 * of a model of trees; false if either is invalid. */
bool tusk_level_goes_left(const tusk_weight *coef, uint64_t n, double from_end, double level);

/* The number of features of a model of trees, and the margin of its class k, or its only one,
 * before the first tree. */
uint64_t tusk_tree_features(const tusk_scorer *s);
double tusk_tree_base(const tusk_scorer *s, uint64_t k);

/* For rows and boosted trees (trees.c). */
bool tusk_tree_margins(tusk_scorer *s, const void *x, bool f64, uint64_t d, uint64_t n,
                       double *out, char *sentence);

/* The margins of all classes of a row, (n_classes,), for a model of more than two classes. */
bool tusk_tree_class_margins(tusk_scorer *s, const void *x, bool f64, uint64_t d, double *out,
                             char *sentence);
/* One margin, or those of more than two classes. */
bool tusk_tree_sparse_margin(tusk_scorer *s, const tusk_sparse_row *row, bool f64, double *out,
                             char *sentence);

/* Converts a sparse row of d features to a dense one; repeated ids add up, ids from d on weigh
   nothing. */
bool tusk_spread(const tusk_sparse_row *row, bool f64, uint64_t d, double *out, char *sentence);

/* For rows and nets (nets/nets.c): margins, or for several classes the rows' classes or their
 * indices. */
bool tusk_net_margins(tusk_scorer *s, const void *x, bool f64, uint64_t d, uint64_t n, double *out,
                      char *sentence);
/* The probabilities of the several classes of a net. */
bool tusk_net_shares(tusk_scorer *s, const void *x, bool f64, uint64_t d, double *out,
                     char *sentence);
bool tusk_net_sparse_margin(tusk_scorer *s, const tusk_sparse_row *row, bool f64, double *out,
                            char *sentence);
bool tusk_net_sparse_shares(tusk_scorer *s, const tusk_sparse_row *row, bool f64, double *out,
                            char *sentence);

/* The number of features of a factorization machine, and for a row of them (d,) the base value and
 * the contributions (1 + d,) to its margin. */
uint64_t tusk_machine_features(const tusk_scorer *s);
void tusk_machine_contributions(const tusk_scorer *s, const double *x, double *out);
/* For rows and factorization machines (fm/fm.c). */
bool tusk_machine_margins(tusk_scorer *s, const void *x, bool f64, uint64_t d, uint64_t n,
                          double *out, char *sentence);
/* The row has as many ids as values. */
bool tusk_machine_sparse_margin(tusk_scorer *s, const tusk_sparse_row *row, bool f64, double *out,
                                char *sentence);

/* Turns the margins of n classes into their probabilities (softmax.c). */
void tusk_to_shares(double *m, uint64_t n);
/* The same for the only margin of two classes, or of one, whose probability is that of its
   side. */
void tusk_shares_of_margin(const tusk_scorer *s, double margin, double *out);
/* The probabilities of ordered levels, (n_classes,), of a row with the margin m, and the likeliest
 * level or its index; a NaN margin has none (levels.c). */
void tusk_shares_of_levels(const tusk_scorer *s, double m, double *out);
double tusk_likeliest_level(const tusk_scorer *s, double m);
/* The probability of the highest level. */
double tusk_share_of_highest(const tusk_scorer *s, double m);
/* For a model of several classes, the class of each row, or its index (softmax.c). */
bool tusk_best_classes(tusk_scorer *s, const void *x, bool f64, uint64_t d, uint64_t n,
                       double *out, char *sentence);
bool tusk_best_class(tusk_scorer *s, const tusk_sparse_row *row, bool f64, double *out,
                     char *sentence);

/* The vector of a user, or after them of an item, in place or copied into room, which has space
 * for it; NULL with a sentence if a store fails. */
const tusk_weight *tusk_factor_vector(tusk_scorer *s, uint64_t vector, double *room,
                                      char *sentence);
/* The mean of the vectors of the users who are in the model, valid until it is forgotten; NULL
 * with a sentence if memory is out or the store fails. breathe: called now and then; NULL: not. */
const double *tusk_mean_user(tusk_scorer *s, void (*breathe)(void), char *sentence);
/* For rows [user, item] and a matrix factorization (factors.c); those that were rows with names
 * are sparse. */
bool tusk_factor_sparse_margin(tusk_scorer *s, const tusk_sparse_row *row, bool f64, double *out,
                               char *sentence);
bool tusk_factor_margins(tusk_scorer *s, const void *x, bool f64, uint64_t d, uint64_t n,
                         double *out, char *sentence);

#endif
