/* The hashing trick: named features to ids.
 *
 * K. Weinberger, A. Dasgupta, J. Langford, A. Smola, J. Attenberg: Feature hashing for large scale
 * multitask learning, ICML 2009. MurmurHash3_x86_32 of the name, seed 0, as a signed number h: the
 * id is |h| mod 2^bits and the sign of h is the sign of the value, so that ids and signs are those
 * of scikit-learn's FeatureHasher.
 */
#ifndef TUSK_HASHING_H
#define TUSK_HASHING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sentence.h"

/* The name is the whole text, no part of which is read as a number. */
typedef struct tusk_feature {
    const char *name;
    size_t length;
    double value; /* a feature with value 0 is left out */
} tusk_feature;

/* Each function returns false, with a sentence, on invalid arguments. */
bool tusk_check_bits(int32_t bits, char *sentence);
bool tusk_check_lengths(uint64_t names, uint64_t values, char *sentence);

/* Returns the feature's id and gives its value the sign of the hash. */
int32_t tusk_hash_feature(tusk_feature *f, int32_t bits);

#endif
