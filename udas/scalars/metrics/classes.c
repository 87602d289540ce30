/* Counts of label and predicted class: stores and merges them. */
#include "classes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "metric.h"

/* --- one class --- */

bool tusk_is_class(double x, const char *argument, char *sentence) {
    if (fabs(x) < 0x1p53) /* above it, different numbers would share a class */
        return true;
    snprintf(sentence, TUSK_SENTENCE, "%s is %g, expected a number below 2^53 in size, or text",
             argument, x);
    return false;
}

bool tusk_class_number(tusk_class *c, double x, const char *argument, char *sentence) {
    if (!tusk_is_class(x, argument, sentence))
        return false;
    uint64_t key = tusk_key_of(x);
    c->bytes = NULL;
    c->length = sizeof key;
    for (size_t i = 0; i < sizeof key; i++)
        c->own[i] = (char)(key >> 8 * (sizeof key - 1 - i));
    return true;
}

bool tusk_class_text(tusk_class *c, const char *text, size_t length, const char *argument,
                     char *sentence) {
    if (length > TUSK_LONGEST_CLASS) {
        snprintf(sentence, TUSK_SENTENCE, "%s has %zu bytes, expected at most %d", argument,
                 length, TUSK_LONGEST_CLASS);
        return false;
    }
    c->bytes = text;
    c->length = (uint32_t)length;
    return true;
}

static const struct {
    const char *name;
    enum tusk_average average;
} AVERAGES[] = {{"binary", TUSK_BINARY},
                {"macro", TUSK_MACRO},
                {"weighted", TUSK_WEIGHTED},
                {"micro", TUSK_MICRO}};

bool tusk_average_of(const char *name, size_t length, enum tusk_average *average, char *sentence) {
    *average = TUSK_BINARY;
    if (!name)
        return true;
    for (size_t i = 0; i < sizeof AVERAGES / sizeof *AVERAGES; i++)
        if (length == strlen(AVERAGES[i].name) && !memcmp(name, AVERAGES[i].name, length)) {
            *average = AVERAGES[i].average;
            return true;
        }
    snprintf(sentence, TUSK_SENTENCE,
             "average is '%.*s', expected 'binary', 'macro', 'weighted' or 'micro'",
             length < 100 ? (int)length : 100, name);
    return false;
}

bool tusk_one_class(enum tusk_average average, char *sentence) {
    if (average != TUSK_BINARY)
        snprintf(sentence, TUSK_SENTENCE,
                 "a positive class is named, expected average 'binary', which is of one class");
    return average == TUSK_BINARY;
}

/* --- common properties of all rows --- */

bool tusk_classes_are(tusk_classes *s, enum tusk_class_type type, enum tusk_average average,
                      char *sentence) {
    if (average == TUSK_BINARY && type == TUSK_TEXT_CLASS) {
        snprintf(sentence, TUSK_SENTENCE,
                 "label is text, expected average 'macro', 'weighted' or 'micro', or the positive "
                 "class as the fourth argument, such as 'binary', 'yes'");
        return false;
    }
    if (s->average && s->average != (int32_t)average) {
        snprintf(sentence, TUSK_SENTENCE,
                 "average takes two values, expected one for all rows of a group");
        return false;
    }
    s->average = (int32_t)average;
    s->type = (int32_t)type;
    return true;
}

/* The number that these bytes encode. */
static double number_of(const tusk_class *c) {
    const unsigned char *bytes = tusk_class_bytes(c);
    uint64_t key = 0;
    for (size_t i = 0; i < sizeof key; i++)
        key = key << 8 | bytes[i];
    return tusk_of_key(key);
}

/* Whether the classes are 0 and 1, or -1 and +1, so that it is clear which one is positive. */
static bool coded(tusk_classes *s, const tusk_class *c, const char *argument, char *sentence) {
    double x = number_of(c);
    if (x != 1 && x != 0 && x != -1) {
        snprintf(sentence, TUSK_SENTENCE,
                 "%s is %g, " TUSK_CODING ", or average 'macro', 'weighted' or 'micro'", argument,
                 x);
        return false;
    }
    s->zero |= x == 0;
    s->minus |= x == -1;
    if (!s->zero || !s->minus)
        return true;
    snprintf(sentence, TUSK_SENTENCE, "classes are both 0 and -1, " TUSK_CODING);
    return false;
}

/* --- finding --- */

static uint64_t mix(uint64_t x) {
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    return x ^ x >> 32;
}

static uint64_t hash_bytes(const char *bytes, uint32_t length) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (uint32_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
    return mix(hash);
}

static uint64_t hash_name(const tusk_classes *s, uint32_t i) {
    return hash_bytes(s->bytes + s->names[i].at, s->names[i].length);
}

static uint64_t hash_of_pair(uint32_t label, uint32_t predicted) {
    return mix(((uint64_t)label << 32 | predicted) * UINT64_C(0x9e3779b97f4a7c15));
}

static uint64_t hash_pair(const tusk_classes *s, uint32_t i) {
    return hash_of_pair(s->pairs[i].label, s->pairs[i].predicted);
}

static void *grown(void *items, int64_t need, int64_t *capacity, size_t bytes, tusk_grow room,
                   char *sentence) {
    if (need <= *capacity)
        return items;
    int64_t more = need > 2 * *capacity ? need : 2 * *capacity;
    void *found = room.grow(items, (size_t)more * bytes, room.context);
    if (found)
        *capacity = more;
    else
        snprintf(sentence, TUSK_SENTENCE, "out of memory");
    return found;
}

/* Makes room for one more item; at most half of the slots are taken. */
static bool reserve_slot(tusk_index *index, const tusk_classes *s, int64_t n,
                         uint64_t (*hash)(const tusk_classes *, uint32_t), tusk_grow room,
                         char *sentence) {
    int64_t n_slots = index->n_slots;
    if (2 * (n + 1) <= n_slots)
        return true;
    int64_t more = n_slots ? 4 * n_slots : 16;
    uint32_t *slots = grown(index->slots, more, &index->n_slots, sizeof *slots, room, sentence);
    if (!slots)
        return false;
    index->slots = slots;
    memset(slots, 0, (size_t)more * sizeof *slots);
    for (uint32_t i = 0; i < (uint32_t)n; i++) {
        uint64_t at = hash(s, i) & (uint64_t)(more - 1);
        while (slots[at])
            at = (at + 1) & (uint64_t)(more - 1);
        slots[at] = i + 1;
    }
    return true;
}

static bool add_name(tusk_classes *s, const tusk_class *c, tusk_grow room, char *sentence) {
    if (s->n_names == TUSK_MOST_CLASSES) {
        snprintf(sentence, TUSK_SENTENCE,
                 "label and predicted have more than %d values, expected classes",
                 TUSK_MOST_CLASSES);
        return false;
    }
    tusk_named *names =
        grown(s->names, s->n_names + 1, &s->room_names, sizeof *names, room, sentence);
    if (!names)
        return false;
    s->names = names;
    char *bytes = grown(s->bytes, s->n_bytes + c->length + 1, &s->room_bytes, 1, room, sentence);
    if (!bytes)
        return false;
    s->bytes = bytes;
    memcpy(bytes + s->n_bytes, tusk_class_bytes(c), c->length);
    names[s->n_names++] = (tusk_named){s->n_bytes, c->length};
    s->n_bytes += c->length;
    return true;
}

/* The position of the class among the names; a new class is added. */
static bool find_name(tusk_classes *s, const tusk_class *c, uint32_t *name, tusk_grow room,
                      char *sentence) {
    if (!reserve_slot(&s->by_name, s, s->n_names, hash_name, room, sentence))
        return false;
    uint64_t mask = (uint64_t)s->by_name.n_slots - 1;
    uint64_t at = hash_bytes(tusk_class_bytes(c), c->length) & mask;
    for (uint32_t item; (item = s->by_name.slots[at]); at = (at + 1) & mask) {
        const tusk_named *known = s->names + item - 1;
        if (known->length == c->length &&
            !memcmp(s->bytes + known->at, tusk_class_bytes(c), c->length)) {
            *name = item - 1;
            return true;
        }
    }
    *name = (uint32_t)s->n_names;
    if (!add_name(s, c, room, sentence))
        return false;
    s->by_name.slots[at] = *name + 1;
    return true;
}

static bool add_pair(tusk_classes *s, tusk_pair pair, tusk_grow room, char *sentence) {
    if (!reserve_slot(&s->by_pair, s, s->n_pairs, hash_pair, room, sentence))
        return false;
    uint64_t mask = (uint64_t)s->by_pair.n_slots - 1;
    uint64_t at = hash_of_pair(pair.label, pair.predicted) & mask;
    for (uint32_t item; (item = s->by_pair.slots[at]); at = (at + 1) & mask) {
        tusk_pair *known = s->pairs + item - 1;
        if (known->label == pair.label && known->predicted == pair.predicted) {
            known->n += pair.n;
            known->weight += pair.weight;
            return true;
        }
    }
    tusk_pair *pairs =
        grown(s->pairs, s->n_pairs + 1, &s->room_pairs, sizeof *pairs, room, sentence);
    if (!pairs)
        return false;
    s->pairs = pairs;
    pairs[s->n_pairs++] = pair;
    s->by_pair.slots[at] = (uint32_t)s->n_pairs;
    return true;
}

bool tusk_classes_add(tusk_classes *s, const tusk_class *label, const tusk_class *predicted,
                      tusk_counts counts, tusk_grow room, char *sentence) {
    if (!tusk_good_weight(counts.weight, sentence))
        return false;
    if (counts.weight == 0)
        return true;
    if (s->average == TUSK_BINARY &&
        !(coded(s, label, "label", sentence) && coded(s, predicted, "predicted", sentence)))
        return false;
    tusk_pair pair = {.n = counts.n, .weight = counts.weight};
    return find_name(s, label, &pair.label, room, sentence) &&
           find_name(s, predicted, &pair.predicted, room, sentence) &&
           add_pair(s, pair, room, sentence);
}

tusk_class tusk_class_of(const tusk_classes *s, uint32_t name) {
    return (tusk_class){s->bytes + s->names[name].at, s->names[name].length, {0}};
}

bool tusk_classes_merge(tusk_classes *target, const tusk_classes *source, tusk_grow room,
                        char *sentence) {
    if (!source->n_pairs)
        return true;
    if (!tusk_classes_are(target, (enum tusk_class_type)source->type,
                          (enum tusk_average)source->average, sentence))
        return false;
    target->weighted |= source->weighted;
    for (const tusk_pair *p = source->pairs; p < source->pairs + source->n_pairs; p++) {
        tusk_class label = tusk_class_of(source, p->label);
        tusk_class predicted = tusk_class_of(source, p->predicted);
        if (!tusk_classes_add(target, &label, &predicted, (tusk_counts){p->n, p->weight}, room,
                              sentence))
            return false;
    }
    return true;
}
