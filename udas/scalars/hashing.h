/* The hashing trick: named features to ids.
 *
 * K. Weinberger, A. Dasgupta, J. Langford, A. Smola, J. Attenberg: Feature hashing for large scale
 * multitask learning, ICML 2009. MurmurHash3_x86_32 of the name, seed 0, as a signed number h: the
 * id is |h| mod 2^bits and the sign of h is the sign of the value, so that ids and signs are those
 * of scikit-learn's FeatureHasher.
 */
#ifndef TUSK_HASHING_H
#define TUSK_HASHING_H

#include <locale.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __APPLE__
#include <xlocale.h>
#endif

#include "sentence.h"

typedef struct tusk_feature {
    const char *name;
    size_t length;
    double value; /* of 0: it weighs nothing, and is left out */
} tusk_feature;

/* `name:value`, or `name`, which counts 1. locale: the C locale, since a program may have set one
 * with a decimal comma. */
tusk_feature tusk_parse_feature(const char *text, size_t length, locale_t locale);

/* False with a sentence. */
bool tusk_check_bits(int32_t bits, char *sentence);
/* The feature's id; its value gets the sign of the hash. */
int32_t tusk_hash_feature(tusk_feature *f, int32_t bits);

#endif
