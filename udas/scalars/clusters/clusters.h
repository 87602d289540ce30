/* Centres of clusters as a model's coefficients: d, the number of features; k, the number of
 * centres; 1 if features have units, else 0; with units the factor of each feature, (d,); and
 * then for each centre the weight of its rows and its coordinates, (k, 1 + d). */
#ifndef TUSK_CLUSTERS_H
#define TUSK_CLUSTERS_H

#include "../models/score.h"

typedef struct tusk_centres {
    uint64_t d, k;
    const tusk_weight *scale; /* (d,); NULL: features have no units */
    const tusk_weight *first; /* (k, 1 + d) */
} tusk_centres;

/* Reads n coefficients; false if they are not centres. */
bool tusk_centres_of(const tusk_weight *coef, uint64_t n, tusk_centres *out);

/* For rows and centres: the numbers of the nearest ones, from 1 on, or the squared distances to
 * them if the scorer measures. */
bool tusk_nearest_centres(tusk_scorer *s, const void *x, bool f64, uint64_t d, uint64_t n,
                          double *out, char *sentence);
bool tusk_sparse_nearest_centre(tusk_scorer *s, const tusk_sparse_row *row, bool f64, double *out,
                                char *sentence);

/* The simplified silhouettes of rows, 1 - a / b with the distances a to the nearest centre and b
 * to the second one (Vendramin, Campello and Hruschka, Relative clustering validity criteria,
 * 2010, section 3.6). NaN without a second centre, 0 if both distances are 0. */
bool tusk_silhouettes(tusk_scorer *s, const void *x, bool f64, uint64_t d, uint64_t n, double *out,
                      char *sentence);
bool tusk_sparse_silhouette(tusk_scorer *s, const tusk_sparse_row *row, bool f64, double *out,
                            char *sentence);

#endif
