#include "shares.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "table.h"

#define ROUNDING 1e-6            /* by which probabilities may miss 1, such as those of 32 bits */
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

/* A text of a number as models call a class of it: 1.0 is '1'. False for another text. */
static bool number_name(const char *given, size_t length, char name[TUSK_CLASS_TEXT]) {
    char text[TUSK_CLASS_TEXT * 2], *end;
    if (!length || length >= sizeof text)
        return false;
    memcpy(text, given, length);
    text[length] = 0;
    if (text[strspn(text, "+-.0123456789eE")])
        return false;
    double number = strtod(text, &end);
    if (*end || end == text)
        return false;
    tusk_name_number(number, name);
    return true;
}

/* What else a boolean class may be called: true is 1 too, and false is 0. */
static const char *other_name(const char *given, size_t length) {
    static const char *const NAMES[][2] = {{"false", "0"}, {"true", "1"}};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 2; i++)
            if (is_named(given, length, NAMES[k][i]))
                return NAMES[k][1 - i];
    return NULL;
}

int64_t tusk_class_place(const char *given, size_t given_length, int64_t n,
                         const char *(*name)(int64_t k, size_t *length, const void *names),
                         const void *names) {
    char number[TUSK_CLASS_TEXT];
    bool is_number = number_name(given, given_length, number);
    const char *second = is_number ? number : NULL;
    const char *third =
        is_number ? other_name(number, strlen(number)) : other_name(given, given_length);
    const struct {
        const char *text;
        size_t length;
    } called[] = {{given, given_length},
                  {second, second ? strlen(second) : 0},
                  {third, third ? strlen(third) : 0}};
    for (int i = 0; i < 3; i++)
        for (int64_t k = 0; called[i].text && k < n; k++) {
            size_t length;
            const char *text = name(k, &length, names);
            if (text && length == called[i].length && !memcmp(text, called[i].text, length))
                return k;
        }
    return -1;
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

/* By a model that has seen one class, which leaves the rest to all others. */
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
    bool halved = s->found && s->n == 2; /* of two classes brier is that of one */
    *row = (tusk_judged){.y = 1, .p = s->own, .others = halved ? 0 : s->squares, .weight = 1};
    return true;
}
