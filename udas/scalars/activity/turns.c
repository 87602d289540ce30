/* Shares of the cores, and turns at them where trainings want more threads than there are.
 *
 * A training's share is a number of threads that need not be whole. It has the whole threads at
 * any time, and one more in turns: credit grows by the share and falls by the threads that it has,
 * per second, and the trainings with the most credit have their turn. So each gets its share of
 * the cores' time, to about a turn or to its longest task, which nothing interrupts (weighted fair
 * queueing: Demers, Keshav and Shenker 1989; credit as in deficit round robin, Shreedhar and
 * Varghese 1996). */
#include "table.h"

#include <math.h>
#include <stdbool.h>

#define TURN 0.05      /* thread-seconds of credit that another training must have more */
#define IDLE 0.02      /* seconds without a computation, after which its threads are free */
#define PATIENCE 0.05  /* seconds after which a turn begins though no thread is free yet */
#define MOST_CREDIT 60 /* thread-seconds */
#define WHOLE 1e-9     /* rounding of shares */

void tusk_max_min(int32_t n, const int32_t *wanted, const double *weight, int32_t cores,
                  double *share) {
    double left = cores, weights = 0;
    for (int32_t i = 0; i < n; i++) {
        share[i] = -1;
        weights += weight[i];
    }
    for (bool more = true; more;) {
        more = false;
        for (int32_t i = 0; i < n; i++)
            if (share[i] < 0 && wanted[i] * weights <= left * weight[i]) {
                share[i] = wanted[i];
                left -= wanted[i];
                weights -= weight[i];
                more = true;
            }
    }
    for (int32_t i = 0; i < n; i++)
        if (share[i] < 0)
            share[i] = fmax(left * weight[i] / weights, 0);
}

/* What is known of the trainings that compute now. */
typedef struct computing {
    int32_t n;
    tusk_slot *slots[TUSK_SLOTS];
    int32_t wanted[TUSK_SLOTS], held[TUSK_SLOTS], turn[TUSK_SLOTS];
    double weight[TUSK_SLOTS], share[TUSK_SLOTS], credit[TUSK_SLOTS];
} computing;

static bool computes(tusk_slot *slot, double now) {
    return TUSK_LOAD(slot->inside) > 0 || now - TUSK_LOAD(slot->active_at) < IDLE;
}

/* The credit of a training by now, while it has `held` threads. */
static double credit_of(tusk_slot *slot, double share, int32_t held, double now) {
    const double since = fmin(fmax(now - TUSK_LOAD(slot->credit_at), 0), MOST_CREDIT);
    const double credit = TUSK_LOAD(slot->credit) + (share - held) * since;
    return isfinite(credit) ? fmin(fmax(credit, -MOST_CREDIT), MOST_CREDIT) : 0;
}

static void add_computing(computing *of, tusk_slot *slot) {
    const int32_t demand = TUSK_LOAD(slot->demand), held = TUSK_LOAD(slot->held);
    of->slots[of->n] = slot;
    of->wanted[of->n] = demand > 1 ? demand : 1;
    of->held[of->n] = held > 0 ? held : 0;
    of->weight[of->n++] = tusk_weight(slot);
}

/* The trainings that compute now, and `mine`. Returns the share of `mine` among all trainings. */
static double find_computing(computing *of, tusk_table *table, tusk_slot *mine, int32_t cores,
                             double now) {
    tusk_slot *slots[TUSK_SLOTS];
    const int32_t all = tusk_list_slots(table, slots);
    double share = 1;
    for (int32_t i = 0; i < all; i++) {
        const int32_t wanted = TUSK_LOAD(slots[i]->wanted);
        of->wanted[i] = wanted > 1 ? wanted : 1;
        of->weight[i] = tusk_weight(slots[i]);
    }
    tusk_max_min(all, of->wanted, of->weight, cores, of->share);
    of->n = 0;
    for (int32_t i = 0; i < all; i++) {
        if (slots[i] == mine)
            share = of->share[i];
        if (slots[i] == mine || computes(slots[i], now))
            add_computing(of, slots[i]);
    }
    tusk_max_min(of->n, of->wanted, of->weight, cores, of->share);
    for (int32_t i = 0; i < of->n; i++)
        of->credit[i] = credit_of(of->slots[i], of->share[i], of->held[i], now);
    return share;
}

/* The one whose turn it is at the next thread; -1: nobody's. */
static int32_t next_turn(const computing *of) {
    int32_t best = -1;
    double most = 0;
    for (int32_t i = 0; i < of->n; i++) {
        const int32_t whole = (int32_t)floor(of->share[i] + WHOLE);
        if (of->turn[i] > whole || of->share[i] - whole < WHOLE)
            continue;
        const double rank = of->credit[i] + (of->held[i] > whole ? TURN : 0);
        if (best < 0 || rank > most) {
            best = i;
            most = rank;
        }
    }
    return best;
}

static void give_turns(computing *of) {
    double shares = 0;
    int32_t whole = 0;
    for (int32_t i = 0; i < of->n; i++) {
        shares += of->share[i];
        whole += of->turn[i] = (int32_t)floor(of->share[i] + WHOLE);
    }
    for (long left = lround(shares) - whole; left > 0; left--) {
        const int32_t next = next_turn(of);
        if (next < 0)
            return;
        of->turn[next]++;
    }
}

/* The threads that a training may have, of those that it is given: not those that others have yet,
 * unless it has waited for long. */
static int32_t free_threads(tusk_slot *mine, int32_t given, int32_t held, int32_t others,
                            int32_t cores, double now) {
    const double since = TUSK_LOAD(mine->waits_since);
    if (given <= held || others + given <= cores || (since > 0 && now - since > PATIENCE)) {
        TUSK_STORE(mine->waits_since, 0.0);
        return given;
    }
    if (!(since > 0))
        TUSK_STORE(mine->waits_since, now);
    const int32_t left = cores - others;
    return left > held ? left : held;
}

tusk_turn tusk_take_turn(tusk_table *table, tusk_slot *mine, int32_t cores, double now) {
    computing of = {0};
    tusk_turn turn = {1, 0, 1, 1};
    int32_t place = -1, others = 0, wanted = 0;
    double weights = 0;
    turn.share = find_computing(&of, table, mine, cores, now);
    give_turns(&of);
    for (int32_t i = 0; i < of.n; i++) {
        wanted += of.wanted[i];
        weights += of.weight[i];
        if (of.slots[i] == mine)
            place = i;
        else
            others += of.held[i];
    }
    if (place < 0)
        return turn;
    const int32_t held = of.held[place];
    const double since = fmax(now - TUSK_LOAD(mine->credit_at), 0);
    turn.contended = wanted > cores;
    turn.threads = free_threads(mine, of.turn[place], held, others, cores, now);
    const double equal = fmin(of.wanted[place], cores * of.weight[place] / weights);
    turn.pace = turn.threads * fmin(1, cores / fmax(turn.threads + others, 1)) / equal;
    TUSK_STORE(mine->core_seconds, TUSK_LOAD(mine->core_seconds) + held * since);
    TUSK_STORE(mine->credit, turn.contended ? of.credit[place] : 0.0);
    TUSK_STORE(mine->credit_at, now);
    TUSK_STORE(mine->held, turn.threads);
    return turn;
}

void tusk_begin_computing(tusk_slot *slot, int32_t wanted, double now) {
    if (!computes(slot, now)) { /* others had its threads */
        TUSK_STORE(slot->held, 0);
        TUSK_STORE(slot->credit_at, now);
    }
    if (wanted >= TUSK_LOAD(slot->demand) || now - TUSK_LOAD(slot->demand_at) > IDLE) {
        TUSK_STORE(slot->demand, wanted);
        TUSK_STORE(slot->demand_at, now);
    }
}
