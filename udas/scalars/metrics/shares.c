#include "shares.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "table.h"

#define ROUNDING 1e-6            /* tolerance of the probabilities' sum, for those of 32 bits */
#define WHOLE 9007199254740992.0 /* 2^53 */

/* Prints the fewest digits that read back as the same number. */
void tusk_name_number(double x, char *text) {
    if (fabs(x) < WHOLE && x == (double)(int64_t)x) {
        snprintf(text, TUSK_CLASS_TEXT, "%" PRId64, (int64_t)x);
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, TUSK_CLASS_TEXT, "%.*g", digits, x);
        if (strtod(text, NULL) == x)
            return;
    }
}

static const char *name_of_boolean(double x) {
    return x == 1 ? "true" : x == 0 ? "false" : "";
}

tusk_shares tusk_shares_of_number(double label, char *own) {
    tusk_name_number(label, own);
    return (tusk_shares){.label = own,
                         .length = strlen(own),
                         .other = name_of_boolean(label),
                         .too_large = !(fabs(label) < WHOLE)};
}

static bool is_named(const char *name, size_t length, const char *text) {
    return length == strlen(text) && !memcmp(name, text, length);
}

tusk_positive tusk_positive_named(const char *name, size_t length) {
    char text[TUSK_CLASS_TEXT * 2], *end;
    tusk_positive found = {name, length, NAN};
    if (length && length < sizeof text) {
        memcpy(text, name, length);
        text[length] = 0;
        double number = strtod(text, &end);
        found.number = *end ? NAN : number;
    }
    for (int k = 0; k < 2; k++)
        if (is_named(name, length, name_of_boolean(k)))
            found.number = k;
    return found;
}

static int64_t place_among(const char *given, size_t given_length, int64_t n, tusk_class_name name,
                           const void *names) {
    for (int64_t k = 0; k < n; k++) {
        size_t length;
        const char *text = name(k, &length, names);
        if (text && length == given_length && !memcmp(text, given, length))
            return k;
    }
    return -1;
}

/* Whether a text is a number in digits, or the name of a boolean. */
static bool is_number_or_boolean(const char *given, size_t length) {
    for (int k = 0; k < 2; k++)
        if (is_named(given, length, name_of_boolean(k)))
            return true;
    size_t digits = 0;
    while (digits < length && given[digits] && strchr("+-.0123456789eE", given[digits]))
        digits++;
    return length && digits == length;
}

int64_t tusk_class_place(const char *given, size_t length, int64_t n, tusk_class_name name,
                         const void *names) {
    int64_t place = place_among(given, length, n, name, names);
    if (place >= 0 || !is_number_or_boolean(given, length))
        return place;
    char text[TUSK_CLASS_TEXT];
    double number = tusk_positive_named(given, length).number;
    if (isnan(number))
        return -1;
    tusk_name_number(number, text);
    place = place_among(text, strlen(text), n, name, names);
    const char *boolean = name_of_boolean(number);
    return place >= 0 || !*boolean ? place : place_among(boolean, strlen(boolean), n, name, names);
}

bool tusk_shares_add(tusk_shares *s, const char *name, size_t length, double p, char *sentence) {
    if (!(p >= 0 && p <= 1)) {
        snprintf(sentence, TUSK_SENTENCE,
                 "p of class '%.*s' is %g, expected a probability between 0 and 1",
                 length < 100 ? (int)length : 100, name, p);
        return false;
    }
    s->n++;
    s->sum += p;
    if ((length == s->length && !memcmp(name, s->label, length)) ||
        (length && s->other && is_named(name, length, s->other))) {
        s->found = true;
        s->own = p;
    } else {
        s->squares += p * p;
    }
    return true;
}

/* For a model that has seen one class, which leaves the rest to all others. */
static bool judged_by_one(const tusk_shares *s, tusk_judged *row) {
    *row = (tusk_judged){.y = s->found, .p = s->sum, .weight = 1};
    return true;
}

bool tusk_shares_judged(const tusk_shares *s, tusk_judged *row, char *sentence) {
    if (s->too_large) {
        snprintf(sentence, TUSK_SENTENCE,
                 "label is %s, expected a number below 2^53 in size, or text", s->label);
        return false;
    }
    if (s->n == 1)
        return judged_by_one(s, row);
    if (!s->n) {
        snprintf(sentence, TUSK_SENTENCE, "p has no classes, expected their probabilities");
        return false;
    }
    if (!(fabs(s->sum - 1) <= ROUNDING)) {
        snprintf(sentence, TUSK_SENTENCE, "p adds up to %g, expected 1", s->sum);
        return false;
    }
    bool halved = s->found && s->n == 2; /* for two classes brier is that of one */
    *row = (tusk_judged){.y = 1, .p = s->own, .others = halved ? 0 : s->squares, .weight = 1};
    return true;
}
