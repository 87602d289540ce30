#include "note.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "json_member.h"
#include "kinds.h"

#define NONE "no standard errors: "

static bool is(tusk_text t, const char *word) {
    return t.data && t.length == strlen(word) && memcmp(t.data, word, t.length) == 0;
}

/* Whether there is a digit other than 0 before any exponent. */
static bool is_positive(tusk_text number) {
    for (size_t i = 0; i < number.length && number.data[i] != 'e'; i++)
        if (number.data[i] >= '1' && number.data[i] <= '9')
            return true;
    return false;
}

static bool is_given(tusk_text value) {
    return value.data && !is(value, "null");
}

/* Whether the status is one that leaves a model its standard errors. */
static bool ends_well(tusk_text status) {
    return is(status, "ok") || is(status, "constant feature") ||
           is(status, "collinear features") || is(status, "rounded feature");
}

/* Whether models of the task never have any. */
static bool without(tusk_text task) {
    const tusk_task_row *known = tusk_task_named(task);
    return known && known->test == TUSK_UNTESTED;
}

void tusk_note_none(const tusk_noted *m, char note[TUSK_NOTE]) {
    if (without(m->task))
        snprintf(note, TUSK_NOTE, NONE "'%.*s' models have none", (int)m->task.length,
                 m->task.data);
    else if (m->store.data)
        snprintf(note, TUSK_NOTE, NONE "models in a store have none");
    else if (is_positive(tusk_json_member(m->options, "l1")) ||
             is_positive(tusk_json_member(m->options, "l2")))
        snprintf(note, TUSK_NOTE, NONE "the model has a penalty, train it without l1 and l2");
    else if (is_given(tusk_json_member(m->options, "class_weight")))
        snprintf(note, TUSK_NOTE, NONE "the model has class weights, train it without");
    else if (m->status.data && !ends_well(m->status))
        snprintf(note, TUSK_NOTE, NONE "the status is '%.*s'",
                 m->status.length < 60 ? (int)m->status.length : 60, m->status.data);
    else
        snprintf(note, TUSK_NOTE,
                 NONE "they need a likelihood, more rows than weights and at most 512 features");
}

tusk_absorbed tusk_absorbed_in(tusk_text options) {
    tusk_text given = tusk_json_member(options, "absorbed_features");
    char text[48] = "";
    tusk_absorbed found = {0, 0};
    if (given.data && given.length < sizeof text) {
        memcpy(text, given.data, given.length);
        sscanf(text, "[%" SCNd64 ",%" SCNd64 "]", &found.first, &found.n);
    }
    return found;
}

void tusk_note_absorbed(tusk_text options, char note[TUSK_NOTE]) {
    tusk_text levels = tusk_json_member(options, "absorbed"),
              share = tusk_json_member(options, "within_r2");
    snprintf(note, TUSK_NOTE, "absorbed levels %.*s, within R2 %.*s",
             levels.length < 100 ? (int)levels.length : 100, levels.data ? levels.data : "",
             share.length < 8 ? (int)share.length : 8, share.data ? share.data : "");
}

bool tusk_has_intercept(tusk_text options) {
    return !is(tusk_json_member(options, "fit_intercept"), "false");
}
