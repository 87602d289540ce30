/* Contributions of each feature of a row to its margins. An explanation of a row with d
 * features and K margins (K > 1 only with more than two classes) is a list of 1 + d + K (d + 1)
 * numbers: K, the d values of the features, and for each margin its base value and the
 * contributions of the d features, which add up to the margin. */
#ifndef TUSK_CONTRIBUTIONS_H
#define TUSK_CONTRIBUTIONS_H

#include "../models/margins.h"

/* Longest list, in numbers: 128 MiB. */
#define TUSK_MOST_EXPLAINED (UINT64_C(1) << 24)

/* Sets the length of an explanation of a model that was read. False with a sentence if it is too
 * long. */
bool tusk_size_explanations(tusk_scorer *s, char *sentence);

/* Writes the explanation of a row, which is either sparse, or dense with d values in x. */
bool tusk_explain_row(const tusk_scorer *s, const tusk_sparse_row *sparse, const void *x, bool f64,
                      uint64_t d, double *out, char *sentence);

/* The same for trees: x has the d values; adds the trees' contributions to each of the K
 * margins, whose base and contributions are in out. */
bool tusk_tree_contributions(const tusk_scorer *s, const double *x, uint64_t d, double *out,
                             char *sentence);

/* The number of features of a net, and for a row of them (d,) the base value and the contributions
 * (1 + d,) to each of its K margins. */
uint64_t tusk_net_features(const tusk_scorer *s);
bool tusk_net_contributions(const tusk_scorer *s, const double *x, double *out, char *sentence);

#endif
