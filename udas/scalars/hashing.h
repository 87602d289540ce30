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

/* The whole text is the name: what is in it is never read as a number. */
typedef struct tusk_feature {
    const char *name;
    size_t length;
    double value; /* of 0: it weighs nothing, and is left out */
} tusk_feature;

/* Each is false with a sentence. */
bool tusk_check_bits(int32_t bits, char *sentence);
bool tusk_check_lengths(uint64_t names, uint64_t values, char *sentence);

/* The feature's id; its value gets the sign of the hash. */
int32_t tusk_hash_feature(tusk_feature *f, int32_t bits);

#endif
