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

static double usable_weight(tusk_slot *slot) {
    const double weight = TUSK_LOAD(slot->weight);
    return weight > 0 && weight < 1e6 ? weight : 1;
}

static int by_age(const void *a, const void *b) {
    tusk_slot *one = *(tusk_slot *const *)a, *other = *(tusk_slot *const *)b;
    const double began = TUSK_LOAD(one->began), later = TUSK_LOAD(other->began);
    if (began != later)
        return began < later ? -1 : 1;
    return one < other ? -1 : one > other;
}

int32_t tusk_share_slots(tusk_table *table, int32_t cores, tusk_slot **slots, int32_t *share) {
    int32_t n = 0, wanted[TUSK_SLOTS];
    double weight[TUSK_SLOTS];
    for (int i = 0; i < TUSK_SLOTS; i++) {
        tusk_slot *slot = table->slots + i;
        if (TUSK_LOAD(slot->pid) > 0 && TUSK_LOAD(slot->ready))
            slots[n++] = slot;
    }
    qsort(slots, (size_t)n, sizeof *slots, by_age);
    for (int32_t i = 0; i < n; i++) {
        const int32_t asked = TUSK_LOAD(slots[i]->wanted);
        wanted[i] = asked > 1 ? asked : 1;
        weight[i] = usable_weight(slots[i]);
    }
    tusk_max_min(n, wanted, weight, cores, share);
    return n;
}

double tusk_pace(int32_t n, tusk_slot *const *slots, const int32_t *share, int32_t cores,
                 int32_t place) {
    double weights = 0, threads = 0;
    for (int32_t i = 0; i < n; i++) {
        weights += usable_weight(slots[i]);
        threads += share[i];
    }
    const double wanted = TUSK_LOAD(slots[place]->wanted);
    const double fair = fmin(fmax(wanted, 1), cores * usable_weight(slots[place]) / weights);
    const double mine = share[place] * fmin(1, cores / threads); /* each has one thread at least */
    return mine / fair;
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

static tusk_running running_of(tusk_slot *slot, double now) {
    const double began = TUSK_LOAD(slot->began), at = TUSK_LOAD(slot->progress_at);
    const double progress = TUSK_LOAD(slot->progress), seconds = fmax(now - began, 0);
    const int64_t rows = TUSK_LOAD(slot->rows);
    tusk_running one = {.pid = TUSK_LOAD(slot->pid),
                        .wanted = TUSK_LOAD(slot->wanted),
                        .weight = usable_weight(slot),
                        .seconds = seconds,
                        .groups = TUSK_LOAD(slot->groups),
                        .done = TUSK_LOAD(slot->done),
                        .number = TUSK_LOAD(slot->number),
                        .device = TUSK_LOAD(slot->device),
                        .rows_per_second = rows > 0 ? (double)rows / fmax(seconds, 1e-6) : NAN,
                        .progress = progress >= 0 && progress <= 1 ? progress : NAN,
                        .left = NAN};
    if (progress > 0 && progress <= 1)
        one.left = fmax((at - began) * (1 - progress) / progress - (now - at), 0);
    tusk_put_text(one.program, sizeof one.program, slot->program);
    tusk_put_text(one.task, sizeof one.task, slot->task);
    tusk_put_text(one.plan, sizeof one.plan, slot->plan);
    return one;
}

/* rho of a training, at the pace of its current share. */
static double rho_of(tusk_slot *slot, const tusk_running *one, double pace, double now) {
    const double left = isnan(one->left) ? 0 : one->left;
    const double since = fmax(now - TUSK_LOAD(slot->ideal_at), 0);
    const double ideal = TUSK_LOAD(slot->ideal) + since * TUSK_LOAD(slot->pace) + left * pace;
    return ideal > 0 ? (one->seconds + left) / ideal : NAN;
}

static bool has_device(tusk_table *table, tusk_slot *slot) {
    const int32_t device = TUSK_LOAD(slot->device);
    return device >= 1 && device <= TUSK_DEVICES &&
           TUSK_LOAD(table->devices[device - 1]) == slot - table->slots + 1;
}

int32_t tusk_list_running(tusk_table *table, tusk_running *out) {
    tusk_slot *slots[TUSK_SLOTS];
    int32_t share[TUSK_SLOTS];
    tusk_remove_gone(table);
    const int32_t cores = cores_of(table), all = tusk_share_slots(table, cores, slots, share);
    const double now = tusk_table_now();
    for (int32_t i = 0; i < all; i++) {
        out[i] = running_of(slots[i], now);
        out[i].share = share[i];
        out[i].has_device = has_device(table, slots[i]);
        out[i].rho = rho_of(slots[i], out + i, tusk_pace(all, slots, share, cores, i), now);
    }
    return all;
}

void tusk_max_min(int32_t n, const int32_t *wanted, const double *weight, int32_t cores,
                  int32_t *share) {
    for (int32_t i = 0; i < n; i++)
        share[i] = 1;
    for (int32_t left = cores - n; left > 0; left--) {
        int32_t least = -1; /* per weight; the first of equals */
        for (int32_t i = 0; i < n; i++)
            if (share[i] < wanted[i] &&
                (least < 0 || share[i] * weight[least] < share[least] * weight[i]))
                least = i;
        if (least < 0)
            return;
        share[least]++;
    }
}
