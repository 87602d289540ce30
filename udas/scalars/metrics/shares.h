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
    const char *other; /* what else the class may be called; NULL: nothing */
    bool too_large;    /* a number that shares its double with others */
    int n;
    bool found;
    double own;     /* the label's probability */
    double sum;     /* of all of them */
    double squares; /* the sum of the others' squares */
} tusk_shares;

/* Calls a label that is a number or a boolean as models call its class: 1.0 is '1', and of models
 * of booleans 'true'. own: TUSK_CLASS_TEXT bytes that stay while the row is read. */
tusk_shares tusk_shares_of_number(double label, char *own);
/* The first of these names. text has TUSK_CLASS_TEXT bytes. */
void tusk_name_number(double x, char *text);

/* The k-th name of a model's classes, or NULL. */
typedef const char *(*tusk_class_name)(int64_t k, size_t *length, const void *names);

/* The place of a class among n names of a model's classes, by its name or its number, as 1.0 is
 * '1' and true is 1 too; -1 where the model never saw it. */
int64_t tusk_class_place(const char *given, size_t length, int64_t n, tusk_class_name name,
                         const void *names);

/* The name of a positive class, and the number that it reads as, 1 for 'true' and 0 for 'false';
 * NaN for a name that is no number. */
typedef struct tusk_positive {
    const char *name;
    size_t length;
    double number;
} tusk_positive;
tusk_positive tusk_positive_named(const char *name, size_t length);

/* Tells a class; false with a sentence if p is not a probability. */
bool tusk_shares_add(tusk_shares *s, const char *name, size_t length, double p, char *sentence);
/* The row as metrics take it, with a weight of 1; a label that is none of the classes has the
 * probability 0. False with a sentence unless the probabilities add up to 1. */
bool tusk_shares_judged(const tusk_shares *s, tusk_judged *row, char *sentence);

#endif
