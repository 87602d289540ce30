/* The probabilities of all classes of a row, by name, evaluated by the row's label. */
#ifndef TUSK_SHARES_H
#define TUSK_SHARES_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "../sentence.h"
#include "metric.h"

/* A row whose classes are added one after another. All zero bytes but the label is a row
 * without classes. */
typedef struct tusk_shares {
    const char *label; /* text, as the class is named */
    size_t length;
    const char *other; /* alternative name of the class; NULL: none */
    bool too_large;    /* a number whose double other numbers share */
    int n;
    bool found;
    double own;     /* the label's probability */
    double sum;     /* of all of them */
    double squares; /* the sum of the others' squares */
} tusk_shares;

/* Names a label that is a number or a boolean like a model's class: 1.0 is '1', and for models
 * of booleans 'true'. own: TUSK_CLASS_TEXT bytes that must stay while the row is read. */
tusk_shares tusk_shares_of_number(double label, char *own);
/* The first of these names. text has TUSK_CLASS_TEXT bytes. */
void tusk_name_number(double x, char *text);

/* The k-th name of a model's classes, or NULL. */
typedef const char *(*tusk_class_name)(int64_t k, size_t *length, const void *names);

/* The index of a class among n names of a model's classes, by its name or its number, as 1.0 is
 * '1' and true is 1 too; -1 for a class that the model never saw. */
int64_t tusk_class_place(const char *given, size_t length, int64_t n, tusk_class_name name,
                         const void *names);

/* The name of a positive class, and its value as a number, 1 for 'true' and 0 for 'false'; NaN
 * for another name. */
typedef struct tusk_positive {
    const char *name;
    size_t length;
    double number;
} tusk_positive;
tusk_positive tusk_positive_named(const char *name, size_t length);

/* Adds a class; false with a sentence if p is not a probability. */
bool tusk_shares_add(tusk_shares *s, const char *name, size_t length, double p, char *sentence);
/* The row as input of metrics, with a weight of 1; a label that is none of the classes has the
 * probability 0. False with a sentence unless the probabilities add up to 1. */
bool tusk_shares_judged(const tusk_shares *s, tusk_judged *row, char *sentence);

#endif
