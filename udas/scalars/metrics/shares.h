/* The probabilities of all classes of a row, by name, judged by the row's label. */
#ifndef TUSK_SHARES_H
#define TUSK_SHARES_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "../sentence.h"
#include "metric.h"

/* A row whose classes are told one after another. All zero bytes but the label is a row without
 * classes. */
typedef struct tusk_shares {
    const char *label; /* text, as the classes are called */
    size_t length;
    int n;
    bool found;
    double own;     /* the label's probability */
    double sum;     /* of all of them */
    double squares; /* the sum of the others' squares */
} tusk_shares;

/* The names of a label that is a number or a boolean, as models call classes: 1.0 is '1', and
 * true is '1' too. text has TUSK_CLASS_TEXT bytes. */
void tusk_name_number(double x, char *text);

/* Whether a text is 'true' or 'false' for a label that is a boolean. */
static inline bool tusk_names_truth(bool boolean, const char *text, size_t length) {
    return boolean && ((length == 4 && !memcmp(text, "true", 4)) ||
                       (length == 5 && !memcmp(text, "false", 5)));
}

/* Tells a class; false with a sentence if p is not a probability. */
bool tusk_shares_add(tusk_shares *s, const char *name, size_t length, double p, char *sentence);
/* The row as metrics take it, with a weight of 1; false with a sentence unless the label is one of
 * the classes and the probabilities add up to 1. */
bool tusk_shares_judged(const tusk_shares *s, tusk_judged *row, char *sentence);

#endif
