/* Lists running trainings, and computes their shares. */
#include "listing.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FOREVER 1e9 /* seconds */

double tusk_table_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* A process id is reused after a while, for a process that began later. */
int64_t tusk_process_began(int64_t pid) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) /* the folder of another account's process may be hidden */
        return kill((pid_t)pid, 0) && errno == ESRCH ? 0 : -1;
    const ssize_t size = read(file, text, sizeof text - 1);
    close(file);
    if (size <= 0)
        return 0;
    text[size] = 0;
    const char *at = strrchr(text, ')'); /* names may have blanks and parentheses */
    if (at && at[1] && (at[2] == 'Z' || at[2] == 'X'))
        return 0; /* ended, and its parent has not reaped it yet */
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoll(at, NULL, 10) : -1;
}

static bool gone(tusk_slot *slot, int64_t pid) {
    const int64_t noted = TUSK_LOAD(slot->process_began), began = tusk_process_began(pid);
    return began == 0 || (began > 0 && noted > 0 && began != noted);
}

void tusk_leave_device(tusk_table *table, tusk_slot *slot) {
    const int32_t device = TUSK_LOAD(slot->device);
    TUSK_STORE(slot->device, 0);
    if (device < 1 || device > TUSK_DEVICES)
        return;
    int64_t mine = slot - table->slots + 1;
    __atomic_compare_exchange_n(table->devices + device - 1, &mine, 0, false, __ATOMIC_SEQ_CST,
                                __ATOMIC_SEQ_CST);
}

/* Frees the slot for others, after its contents have been cleared. */
void tusk_release(tusk_table *table, tusk_slot *slot) {
    tusk_leave_device(table, slot);
    TUSK_STORE(slot->ready, 0);
    TUSK_STORE(slot->process_began, 0);
    TUSK_STORE(slot->pid, 0);
}

void tusk_remove_gone(tusk_table *table) {
    for (int i = 0; i < TUSK_SLOTS; i++) {
        tusk_slot *slot = table->slots + i;
        int64_t pid = TUSK_LOAD(slot->pid);
        if (pid > 0 && gone(slot, pid) &&
            __atomic_compare_exchange_n(&slot->pid, &pid, -1, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST)) {
            tusk_release(table, slot);
            __atomic_add_fetch(&table->generation, 1, __ATOMIC_SEQ_CST);
        }
    }
}

void tusk_put_text(char *to, int size, const char *text) {
    const size_t length = strnlen(text, (size_t)size - 1);
    memcpy(to, text, length);
    memset(to + length, 0, (size_t)size - 1 - length);
}

double tusk_weight(tusk_slot *slot) {
    const double weight = TUSK_LOAD(slot->weight);
    return weight >= 1e-3 && weight < 1e6 ? weight : 1;
}

static int by_age(const void *a, const void *b) {
    tusk_slot *one = *(tusk_slot *const *)a, *other = *(tusk_slot *const *)b;
    const double began = TUSK_LOAD(one->began), later = TUSK_LOAD(other->began);
    if (began != later)
        return began < later ? -1 : 1;
    return one < other ? -1 : one > other;
}

int32_t tusk_list_slots(tusk_table *table, tusk_slot **slots) {
    int32_t n = 0;
    for (int i = 0; i < TUSK_SLOTS; i++) {
        tusk_slot *slot = table->slots + i;
        if (TUSK_LOAD(slot->pid) > 0 && TUSK_LOAD(slot->ready))
            slots[n++] = slot;
    }
    qsort(slots, (size_t)n, sizeof *slots, by_age);
    return n;
}

/* The number of cores that most of the trainings report: a container may see fewer. */
static int32_t cores_of(tusk_table *table) {
    int32_t most = 1;
    for (int i = 0; i < TUSK_SLOTS; i++) {
        tusk_slot *slot = table->slots + i;
        const int32_t cores = TUSK_LOAD(slot->cores);
        if (TUSK_LOAD(slot->pid) > 0 && TUSK_LOAD(slot->ready) && cores > most)
            most = cores;
    }
    return most;
}

static double core_seconds_of(tusk_slot *slot, double now) {
    const double since = fmax(now - TUSK_LOAD(slot->credit_at), 0);
    const bool computes = TUSK_LOAD(slot->inside) > 0;
    const double seconds =
        TUSK_LOAD(slot->core_seconds) + (computes ? TUSK_LOAD(slot->held) * since : 0);
    return isfinite(seconds) ? seconds : NAN;
}

static tusk_running running_of(tusk_slot *slot, double now) {
    const double began = TUSK_LOAD(slot->began), at = TUSK_LOAD(slot->progress_at);
    const double progress = TUSK_LOAD(slot->progress), seconds = fmax(now - began, 0);
    const double expected = TUSK_LOAD(slot->expected);
    const int64_t rows = TUSK_LOAD(slot->rows);
    tusk_running one = {.pid = TUSK_LOAD(slot->pid),
                        .wanted = TUSK_LOAD(slot->wanted),
                        .weight = tusk_weight(slot),
                        .seconds = seconds,
                        .core_seconds = core_seconds_of(slot, now),
                        .groups = TUSK_LOAD(slot->groups),
                        .done = TUSK_LOAD(slot->done),
                        .number = TUSK_LOAD(slot->number),
                        .device = TUSK_LOAD(slot->device),
                        .rows_per_second = rows > 0 ? (double)rows / fmax(seconds, 1e-6) : NAN,
                        .progress = progress >= 0 && progress <= 1 ? progress : NAN,
                        .left = NAN};
    if (progress > 0 && progress <= 1)
        one.left = fmax((at - began) * (1 - progress) / progress - (now - at), 0);
    else if (expected > 0 && expected < FOREVER)
        one.left = fmax(expected - (now - TUSK_LOAD(slot->expected_at)), 0);
    tusk_put_text(one.program, sizeof one.program, slot->program);
    tusk_put_text(one.task, sizeof one.task, slot->task);
    tusk_put_text(one.plan, sizeof one.plan, slot->plan);
    return one;
}

/* rho of a training; pace: of the seconds that are left. NaN where these are not known. */
static double rho_of(tusk_slot *slot, const tusk_running *one, double pace, double now) {
    const double since = fmax(now - TUSK_LOAD(slot->ideal_at), 0);
    const double ideal = TUSK_LOAD(slot->ideal) + since * TUSK_LOAD(slot->pace) + one->left * pace;
    return ideal > 0 ? (one->seconds + one->left) / ideal : NAN;
}

static bool has_device(tusk_table *table, tusk_slot *slot) {
    const int32_t device = TUSK_LOAD(slot->device);
    return device >= 1 && device <= TUSK_DEVICES &&
           TUSK_LOAD(table->devices[device - 1]) == slot - table->slots + 1;
}

int32_t tusk_list_running(tusk_table *table, tusk_running *out) {
    tusk_slot *slots[TUSK_SLOTS];
    int32_t wanted[TUSK_SLOTS];
    double weight[TUSK_SLOTS], share[TUSK_SLOTS], weights = 0;
    tusk_remove_gone(table);
    const int32_t cores = cores_of(table), all = tusk_list_slots(table, slots);
    const double now = tusk_table_now();
    for (int32_t i = 0; i < all; i++) {
        out[i] = running_of(slots[i], now);
        wanted[i] = out[i].wanted > 1 ? out[i].wanted : 1;
        weights += weight[i] = out[i].weight;
    }
    tusk_max_min(all, wanted, weight, cores, share);
    for (int32_t i = 0; i < all; i++) {
        const double equal = fmin(wanted[i], cores * weight[i] / weights);
        out[i].share = share[i];
        out[i].has_device = has_device(table, slots[i]);
        out[i].rho = rho_of(slots[i], out + i, share[i] / equal, now);
    }
    return all;
}
