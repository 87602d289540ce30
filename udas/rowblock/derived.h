/* Derived values of a column before encoding: a part of a date, the text of a number, or the
 * hashed words of a text. Training and predictions share this file. Models depend on all of it,
 * so none of it may change. */
#ifndef TUSK_DERIVED_H
#define TUSK_DERIVED_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>

#include "text_hash.h"

enum tusk_date_part { TUSK_WHOLE, TUSK_YEAR, TUSK_MONTH, TUSK_WEEKDAY, TUSK_HOUR, TUSK_PARTS };

static const char *const TUSK_PART_NAMES[TUSK_PARTS] = {"", "year", "month", "weekday", "hour"};
/* Number of values of a part, and its first value. A year has no cycle. */
static const double TUSK_PART_LENGTH[TUSK_PARTS] = {1, 1, 12, 7, 24};
static const double TUSK_PART_FIRST[TUSK_PARTS] = {0, 0, 1, 1, 0};

#define TUSK_DAY_MICROSECONDS INT64_C(86400000000)
#define TUSK_MOST_DAYS 1e10

/* Year and month of a day, counted from 1970-01-01: H. Hinnant, "chrono-compatible low-level
 * date algorithms", civil_from_days. */
static inline double tusk_civil(int64_t day, int year) {
    int64_t z = day + 719468, era = (z >= 0 ? z : z - 146096) / 146097;
    int64_t of_era = z - era * 146097;
    int64_t y = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * y + y / 4 - y / 100);
    int64_t shifted = (5 * of_year + 2) / 153, month = shifted < 10 ? shifted + 3 : shifted - 9;
    return year ? (double)(y + era * 400 + (month <= 2)) : (double)month;
}

/* A part of a time in days since 1970-01-01: the year, the month from 1 on, the day of the week
 * from Monday = 1 on (ISO 8601), or the hour. */
static inline double tusk_part_of(double days, enum tusk_date_part part) {
    if (part == TUSK_WHOLE || !(days > -TUSK_MOST_DAYS && days < TUSK_MOST_DAYS))
        return part == TUSK_WHOLE ? days : TUSK_PART_FIRST[part];
    double whole = floor(days);
    int64_t day = (int64_t)whole;
    int64_t time = (int64_t)((days - whole) * (double)TUSK_DAY_MICROSECONDS + 0.5);
    if (time >= TUSK_DAY_MICROSECONDS) {
        day++;
        time = 0;
    }
    if (part == TUSK_HOUR)
        return (double)(time / (TUSK_DAY_MICROSECONDS / 24));
    if (part == TUSK_WEEKDAY)
        return (double)(((day + 3) % 7 + 7) % 7 + 1);
    return tusk_civil(day, part == TUSK_YEAR);
}

/* The angle of a cyclic part, in radians. */
static inline double tusk_angle(double value, enum tusk_date_part part) {
    return 6.283185307179586 * (value - TUSK_PART_FIRST[part]) / TUSK_PART_LENGTH[part];
}

#define TUSK_NUMBER_TEXT 32

/* The text of a number used as a category: 7, not 7.0. Returns its length. */
static inline size_t tusk_number_text(double x, char out[TUSK_NUMBER_TEXT]) {
    if (x >= -1e15 && x <= 1e15 && x == (double)(int64_t)x) {
        char digits[TUSK_NUMBER_TEXT], *at = digits + sizeof digits;
        uint64_t rest = (uint64_t)(x < 0 ? -x : x);
        do
            *--at = (char)('0' + rest % 10);
        while (rest /= 10);
        if (x < 0)
            *--at = '-';
        size_t n = (size_t)(digits + sizeof digits - at);
        memcpy(out, at, n);
        return n;
    }
    return (size_t)snprintf(out, TUSK_NUMBER_TEXT, x > -0x1p53 && x < 0x1p53 ? "%.17g" : "%.16e",
                            x);
}

/* --- words --- */

static inline int tusk_in_word(unsigned char c) {
    return c >= 0x80 || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* FNV-1a of the word from *at on, with ASCII letters in lower case. Moves *at after it. Returns
 * 0 at the end of the text. */
static inline uint64_t tusk_next_word(const char **at, const char *end) {
    const char *c = *at;
    while (c < end && !tusk_in_word((unsigned char)*c))
        c++;
    uint64_t h = c < end ? UINT64_C(0xcbf29ce484222325) : 0;
    for (; c < end && tusk_in_word((unsigned char)*c); c++) {
        unsigned char byte = (unsigned char)*c;
        h = (h ^ (byte >= 'A' && byte <= 'Z' ? byte | 0x20u : byte)) * UINT64_C(0x100000001b3);
    }
    *at = c;
    return h;
}

/* The bucket of a word, or of a pair of neighbouring words. before: 0 or the first word's hash. */
static inline uint32_t tusk_bucket(uint64_t before, uint64_t word, int bits) {
    return (uint32_t)(tusk_hash_mix(tusk_hash_mix(0, before), word) >> 3) & ((1u << bits) - 1);
}

#endif
